"""In which order tests are run, so that the processes of a run end together."""

from collections.abc import Sequence


def shared_out(seconds: Sequence[float], processes: int) -> list[int]:
    """The order of tests, by their place in `seconds`, which says how long each takes; 0: not long.

    pytest-xdist's work stealing cuts the list into a stretch for each process, of equal lengths but for the rest, and a
    process that has done its own takes from the end of another's. So what is slow stands at the beginning of every
    stretch, the slowest first, as much of it in each as in the others; what is quick keeps its order and comes last.
    """
    stretches: list[list[int]] = [[] for _ in range(processes)]
    slow = [number for number, length in enumerate(seconds) if length]
    for number in sorted(slow, key=lambda number: -seconds[number]):
        min(stretches, key=lambda stretch: sum(seconds[one] for one in stretch)).append(number)
    quick = [number for number, length in enumerate(seconds) if not length]
    for number, size in enumerate(sizes(len(seconds), processes)):
        room = max(0, size - len(stretches[number]))
        stretches[number] += quick[:room]
        del quick[:room]
    return [number for stretch in stretches for number in stretch] + quick


def sizes(count: int, processes: int) -> list[int]:
    """How long the stretches are, as `xdist.scheduler.worksteal` cuts them."""
    found: list[int] = []
    for number in range(processes):
        found.append((count - sum(found)) // (processes - number))
    return found
