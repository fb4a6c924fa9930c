"""Programs that ask a ledger and let answers leave, and the check that every answer that left was paid for."""

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.ledger.accounts import policy_in, request_for

from sfumato.errors import BudgetExhausted, Refusal
from sfumato.ledger.ledger import Entry, Ledger
from sfumato.ledger.opening import open_ledger
from sfumato.policy.policy import Policy
from sfumato.randomness.source import system_source

ANSWERS = "answers"
RETRIES = 3


def answer(ledger: Ledger, policy: Policy, questions: Sequence[str], leave: int, answer_first: bool = False) -> int:
    """Ask each question and write each answer to where it leaves; return how many the budget refused.

    `answer_first` is a planted bug: the answer leaves before the charge is durable.
    """
    refused = 0
    for question in questions:
        if answer_first:
            os.write(leave, f"{question}\t\n".encode())
        try:
            release = answered(ledger, policy, question)
        except BudgetExhausted:
            refused += 1
            continue
        if not answer_first:
            os.write(leave, f"{question}\t{release}\n".encode())
    return refused


def answered(ledger: Ledger, policy: Policy, question: str) -> str:
    """Ask one question: its answer has fresh noise where there is none yet."""
    with ledger.charge(request_for(policy, question)) as charge:
        if charge.stored_release is not None:
            return charge.stored_release
        release = f"release of {question} with {charge.noise_from(system_source()).read(8).hex()}"
        charge.settle(release)
    return release


def answer_in(folder: Path, epsilon: object, questions: Sequence[str], answer_first: bool = False) -> None:
    """Do the same with the ledger of a folder, from opening to closing; what the ledger refuses is asked again."""
    policy = policy_in(folder, epsilon)
    leave = os.open(folder / ANSWERS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        ledger = open_ledger(policy)
    except Refusal:
        return
    for question in questions:
        for _ in range(RETRIES):
            try:
                answer(ledger, policy, [question], leave, answer_first)
                break
            except Refusal:
                pass
    ledger.close()


def uncovered(folder: Path, epsilon: object) -> list[str]:
    """Return what is wrong in a folder after a crash.

    Answers that were not paid for, questions that were charged twice, two answers of one charge, also when everything
    is asked again now; or a ledger that does not open.
    """
    policy = policy_in(folder, epsilon)
    path = folder / ANSWERS
    left = [line.split("\t") for line in path.read_text().split("\n")[:-1]] if path.exists() else []
    ledger = open_ledger(policy)
    try:
        verified = ledger.verify()
        settled = {question_of(entry): entry.release for entry in ledger.history() if entry.state == "settled"}
        wrong = [f"{question} left unpaid" for question, _ in left if question not in settled]
        wrong += [f"{question} left as another" for question, release in left if settled.get(question) != release]
        wrong += ["over the cap"] * (verified.spent.epsilon > ledger.budget().total.epsilon)
        for entry in ledger.history():
            found = answered(ledger, policy, question_of(entry)) if entry.state != "settled" else entry.release
            if found != answered(ledger, policy, question_of(entry)):
                wrong.append(f"{question_of(entry)} has two answers")
        charged = Counter(map(question_of, ledger.history()))
        return wrong + [f"{question} was charged {times} times" for question, times in charged.items() if times > 1]
    finally:
        ledger.close()


def question_of(entry: Entry) -> str:
    return entry.sql.removeprefix("SELECT ")


def killed_at_random(folder: Path, epsilon: object, after: float) -> None:
    """Let a child answer without end, and kill it."""
    child = os.fork()
    if child == 0:
        try:
            answer_in(folder, epsilon, [f"{after} {place}" for place in range(1000)])
        finally:
            os._exit(0)
    threading.Event().wait(after)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def crowd(policy: Policy, threads: int, asks: int, name: str, leave: int) -> int:
    """Let many threads ask questions of their own; return how many were refused."""
    ledger, refused = open_ledger(policy), []
    crowd = [
        threading.Thread(
            target=lambda one=one: refused.append(
                answer(ledger, policy, [f"{name} {one} {place}" for place in range(asks)], leave)
            )
        )
        for one in range(threads)
    ]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    ledger.close()
    return sum(refused)


def crowds(ledger: str, epsilon: str, processes: int, threads: int, asks: int) -> tuple[int, int]:
    """Let several processes ask at once; return how many answers left and how many were refused."""
    command = [sys.executable, "-m", "tests.ledger.answering", ledger, epsilon, str(threads), str(asks)]
    running = [
        subprocess.Popen([*command, str(place)], stdout=subprocess.PIPE, encoding="utf-8") for place in range(processes)
    ]
    lines = [line for process in running for line in process.communicate(timeout=300)[0].splitlines()]
    assert [process.returncode for process in running] == [0] * processes
    refused = sum(int(line.removeprefix("refused ")) for line in lines if line.startswith("refused "))
    return len(lines) - processes, refused


if __name__ == "__main__":
    place, budget, many, times, name = sys.argv[1:]
    told = crowd(policy_in(Path(), budget, ledger=place), int(many), int(times), name, 1)
    os.write(1, f"refused {told}\n".encode())
