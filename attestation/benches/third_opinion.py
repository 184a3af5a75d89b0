"""Asks an integer programming solver about the disclosure rule's verdicts on matrices beyond brute force.

    pip install highspy
    cargo build --bin veilsum
    python3 attestation/benches/third_opinion.py target/debug/veilsum [plans]

The least number of clients in a nonzero combination of the rows of W is the least support of a vector a.W with a != 0.
As a program: for each client i, minimise the number of clients j with (a.W)_j != 0 subject to (a.W)_i = 1, where a
binary z_j allows |(a.W)_j| <= B. A combination that the bound B cuts off could only be lighter, so the solver's figure is
an upper bound; it must never be below the rule's least cover, and the rule's own combination, recomputed here in
fractions, must reach it.
"""

import json
import random
import subprocess
import sys
import tempfile

import highspy

BOUND = 64


def least_support(rows, n):
    """Least support of a nonzero combination, by one program per column."""
    best = n + 1
    for pinned in range(n):
        if not any(row[pinned] for row in rows):
            continue
        solver = highspy.Highs()
        solver.setOptionValue("output_flag", False)
        a = [solver.addVariable(-BOUND, BOUND) for _ in rows]
        z = [solver.addBinary() for _ in range(n)]
        for j in range(n):
            value = sum(a[k] * row[j] for k, row in enumerate(rows) if row[j])
            if isinstance(value, int):
                solver.addConstr(z[j] <= 0)
                continue
            if j == pinned:
                solver.addConstr(value == 1)
            solver.addConstr(value - BOUND * z[j] <= 0)
            solver.addConstr(value + BOUND * z[j] >= 0)
        solver.addConstr(sum(z[j] for j in range(n)) <= best - 1)
        solver.minimize(sum(z[j] for j in range(n)))
        if solver.getModelStatus() == highspy.HighsModelStatus.kOptimal:
            best = min(best, round(solver.getInfo().objective_function_value))
    return best


def rule(binary, rows, n):
    """The rule's least cover and whether its combination really has it."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(rows, file)
        file.flush()
        command = [binary, "plan", "check", file.name, "--crowd", str(n + 1), "--format", "json"]
        found = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    detail = found["detail"]
    total = [sum(t["factor"] * rows[t["cluster"]][j] for t in detail["coefficients"]) for j in range(n)]
    support = [str(j) for j in range(n) if total[j] != 0]
    return detail["covered"], support == detail["clients"] and len(support) == detail["covered"]


def plan(rng):
    """Every client in one cluster, a quarter in a second, or a denser matrix."""
    n, k = rng.randint(13, 40), rng.randint(3, 6)
    rows = [[0] * n for _ in range(k)]
    for j in range(n):
        rows[rng.randrange(k)][j] = 1
        if rng.random() < rng.choice([0.25, 0.25, 0.8]):
            rows[rng.randrange(k)][j] = 1
    return rows, n


def main():
    binary, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100
    rng = random.Random(1)
    agree = lower = higher = bad = 0
    for number in range(count):
        rows, n = plan(rng)
        ours, sound = rule(binary, rows, n)
        theirs = least_support(rows, n)
        agree += ours == theirs
        lower += theirs < ours
        higher += theirs > ours
        bad += not sound
        if theirs < ours or not sound:
            print(f"plan {number}: rule {ours}, solver {theirs}, combination sound: {sound}: {rows}")
    print(f"{count} plans: {agree} agree, solver lower {lower}, solver higher {higher}, unsound combinations {bad}")
    return 1 if lower or bad else 0


if __name__ == "__main__":
    sys.exit(main())
