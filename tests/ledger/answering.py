"""Programs that ask a ledger and let answers leave, and the check that every answer that left was paid for."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from tests.ledger.accounts import policy_in, request_for

from sfumato.errors import BudgetExhausted, Refusal
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.opening import open_ledger
from sfumato.policy.policy import Policy

ANSWERS = "answers"


def answer(ledger: Ledger, policy: Policy, questions: Sequence[str], leave: int, answer_first: bool = False) -> int:
    """Ask each question and write each answer to where it leaves; return how many the budget refused.

    `answer_first` is a planted bug: the answer leaves before the charge is durable.
    """
    refused = 0
    for question in questions:
        if answer_first:
            os.write(leave, f"{question}\n".encode())
        try:
            with ledger.charge(request_for(policy, question)) as charge:
                if charge.kept is None:
                    charge.settle(f"release of {question}")
        except BudgetExhausted:
            refused += 1
            continue
        if not answer_first:
            os.write(leave, f"{question}\n".encode())
    return refused


def answer_in(folder: Path, epsilon: object, questions: Sequence[str], answer_first: bool = False) -> None:
    """Do the same with the ledger of a folder, from opening to closing; a refusal of the ledger ends it."""
    policy = policy_in(folder, epsilon)
    leave = os.open(folder / ANSWERS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        ledger = open_ledger(policy)
        answer(ledger, policy, questions, leave, answer_first)
        ledger.close()
    except Refusal:
        pass


def uncovered(folder: Path, epsilon: object) -> list[str]:
    """Return what is wrong in a folder after a crash: answers that nobody paid for, or a ledger that does not open."""
    policy = policy_in(folder, epsilon)
    path = folder / ANSWERS
    left = path.read_text().split("\n")[:-1] if path.exists() else []
    ledger = open_ledger(policy)
    try:
        verified = ledger.verify()
        settled = {entry.sql.removeprefix("SELECT ") for entry in ledger.history() if entry.state == "settled"}
        over = verified.spent.epsilon > ledger.budget().total.epsilon
        return [f"{answer} left unpaid" for answer in left if answer not in settled] + ["over the cap"] * over
    finally:
        ledger.close()


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
