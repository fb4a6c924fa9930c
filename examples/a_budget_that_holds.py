"""Spend a budget on questions that depend on earlier answers, until the next one is refused."""

from fractions import Fraction

from sfumato.accounting.event import Neighbours
from sfumato.accounting.filter import Filter
from sfumato.errors import BudgetExhausted
from sfumato.mechanisms.laplace import Laplace
from sfumato.randomness.source import system_source

ages = [19, 23, 31, 34, 36, 41, 44, 47, 52, 58, 63, 71, 76, 80, 84] * 200
budget = Filter(Fraction(1), Fraction(1, 10**6))
count = Laplace(1, Fraction(5), Neighbours.REPLACE)  # so the number of people is public, their ages are not

# Search for the median by bisection: each question is chosen by the noisy answer to the one before.
low, high = 0, 128
try:
    while high - low > 1:
        middle = (low + high) // 2
        budget = budget.charge(count.event)  # first the charge, then the data
        below = count.release([sum(age < middle for age in ages)], system_source())[0]
        low, high = (middle, high) if below < len(ages) // 2 else (low, middle)
        print(f"about {below} are younger than {middle}; spent {budget.spent}")
    print("the median is about", low)
except BudgetExhausted as refusal:
    print(f"between {low} and {high}, and no nearer: {refusal.what}")
    print(refusal.remedy)
