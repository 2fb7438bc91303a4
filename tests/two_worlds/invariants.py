"""What must hold in each world alone, as what both do wrong alike is no difference between them.

| invariant | what |
|---|---|
| words | no noise word ever meets two exact inputs, whatever is restored, copied or asked again |
| price | what was shown, priced anew release by release, is at most what the account is told |
| parameters | those of each release lie within the policy of today |
| again | a question that was answered is answered again, with the same rows, for nothing |
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from dpsql.ir.plan import PreparedBlock
from dpsql.ir.relations import RowSet, Scan

from .play import Heard, Side, TwoWorlds, Watcher
from .programs import ACCOUNTS, Step

GROUPS_TO_TELL: Final = 3
"""So many groups with the same noise twice are no chance: its deviation is some units at least."""
DISTURBING: Final = frozenset({"policy", "edit", "restore", "save", "clock"})


class Words:
    """No noise word meets two exact inputs."""

    def __init__(self, worlds: TwoWorlds) -> None:
        self._counted = worlds.door.counted
        self._seen: dict[tuple[str, bytes], bytes] = {}
        self._drawn: dict[tuple[Any, ...], list[dict[Any, tuple[int, int]]]] = {}
        self._problems: list[str] = []
        self._worlds = worlds
        worlds.door.watchers.append(self._watch)

    def __call__(
        self, worlds: TwoWorlds, side: Side, step: Step, heard: Heard
    ) -> Iterator[tuple[str, str]]:
        for problem in self._problems:
            yield "words", problem
        self._problems.clear()

    def _watch(self, door: str, arguments: tuple[Any, ...], drawn: Any) -> None:
        side = self._worlds.sides[0 if self._worlds.door.leading else 1]
        exact = hashlib.sha256(repr(arguments[:2]).encode()).digest()
        for words in side.tape.words:
            if len(words) < 2:
                continue
            self._counted["words compared"] += 1
            known = self._seen.setdefault((side.name, words.tobytes()), exact)
            if known != exact:
                self._problems.append(f"{door}: words of noise were used before ({side.name})")
        if door == "draw_step":
            self._step(side, *arguments[:4])

    def _step(self, side: Side, plan: Any, step: int, totals: Any, noise: Any) -> None:
        """Compare a step of a view with the same step as it was drawn before, if it was."""
        keys = list(zip(*totals.keys, strict=True)) or [()] * totals.count
        found = side.tape.noises.pop() if side.tape.noises else []
        side.tape.noises.clear()
        name = (side.name, plan.definition.name, step)
        for index, (exact, drawn) in enumerate(zip(totals.values, found, strict=False)):
            now = {
                key: (int(e), int(n))
                for key, e, n in zip(keys, exact.tolist(), drawn.tolist(), strict=False)
            }
            for before in self._drawn.setdefault((*name, index), []):
                common = [key for key in now if key in before]
                self._counted["steps compared"] += 1
                alike = [key for key in common if before[key][1] == now[key][1]]
                moved = [key for key in alike if before[key][0] != now[key][0]]
                if len(alike) >= GROUPS_TO_TELL and len(alike) == len(common) and moved:
                    self._problems.append(
                        f"the noise of step {step} of {plan.definition.name} is on two states of "
                        f"the data ({side.name})"
                    )
            self._drawn[*name, index].append(now)


class Parameters:
    """The parameters of each release lie within the policy of today."""

    def __init__(self, worlds: TwoWorlds) -> None:
        self._worlds = worlds
        self._problems: list[str] = []
        worlds.door.watchers.append(self._watch)

    def __call__(
        self, worlds: TwoWorlds, side: Side, step: Step, heard: Heard
    ) -> Iterator[tuple[str, str]]:
        for problem in self._problems:
            account = step.account
            yield "parameters", f"{problem} ({account}, {side.name})"
        self._problems.clear()
        if self._refreshed(step, heard) and side.rules.creators == ():
            yield "parameters", f"{step.account} may have no views and refreshes one"

    @staticmethod
    def _refreshed(step: Step, heard: Heard) -> bool:
        return step.text.startswith("REFRESH") and heard.kind == "answered"

    def _watch(self, door: str, arguments: tuple[Any, ...], drawn: Any) -> None:
        side = self._worlds.sides[0 if self._worlds.door.leading else 1]
        planned = arguments[0]
        block = planned.plan.block if isinstance(planned, PreparedBlock) else None
        if block is None and door not in ("release_estimate", "release_bounds"):
            block = planned.block
        if block is None:
            return
        self._worlds.door.counted["parameters compared"] += 1
        rules, parameters = side.rules, block.parameters
        read = tables_of(block)
        least = rules.minimum if read & side.reader.with_minimum else 1
        if block.keys and parameters.min_units_per_group < least:
            self._problems.append(
                f"groups of {parameters.min_units_per_group} units are released of "
                f"{sorted(read)}, where the policy says {least}"
            )
        if parameters.epsilon is not None and parameters.epsilon > rules.maximum:
            self._problems.append(
                f"a release at epsilon {parameters.epsilon}, where "
                f"the policy allows {rules.maximum}"
            )


def tables_of(block: Any) -> set[str]:
    """The tables that a block reads."""
    found, left = set(), [block.source]
    while left:
        node = left.pop()
        if isinstance(node, Scan):
            found.add(node.table.name.table)
        elif isinstance(node, RowSet):
            left += node.sources
        else:
            left += [v for n in ("rows", "table", "source") if (v := getattr(node, n, None))]
            if isinstance(name := getattr(node, "table", None), str):
                found.add(name)
    return found


class Again:
    """What was answered is answered again for nothing, with the same rows."""

    def __init__(self, worlds: TwoWorlds) -> None:
        self._counted = worlds.door.counted
        self._answered: dict[tuple[str, str], dict[str, str]] = {}

    def __call__(
        self, worlds: TwoWorlds, side: Side, step: Step, heard: Heard
    ) -> Iterator[tuple[str, str]]:
        if step.kind in DISTURBING:
            for key in [k for k in self._answered if k[0] == side.name]:
                del self._answered[key]
            return
        if not step.is_statement:
            return
        mine = self._answered.setdefault((side.name, step.account), {})
        if step.text.startswith(("SET", "RESET")) or not step.text.upper().startswith("SELECT"):
            mine.clear()  # settings and views may be others now
            return
        question = repr((step.text, step.values, sorted(step.parameters.items(), key=repr)))
        if step.kind == "again" and question in mine:
            self._counted["asked again"] += 1
            if heard.kind != "answered":
                yield "again", f"it was answered, and now it is {heard.kind} {heard.code}"
            elif not heard.free:
                yield "again", "it is paid for once more"
            elif heard.rows != mine[question]:
                yield "again", "it is answered otherwise"
        if step.parameters.keys() & {"combine", "max_age", "fresh"} or step.way != "api":
            return
        if heard.kind == "answered":
            mine[question] = heard.rows


class Price:
    """What a window has shown, priced anew, is at most what the account is told of it."""

    def __init__(self, worlds: TwoWorlds) -> None:
        self._worlds = worlds
        self._shown: dict[tuple[str, str, str], float] = {}
        self._streams: set[Any] = set()  # by the window in which they publish
        self._off: set[str] = set()  # sides whose ledger was put back: it knows less
        self._daily: set[str] = set()
        self._bought: list[float] = []
        self._published: dict[str, float] = {}
        worlds.door.watchers.append(self._watch)

    def _watch(self, door: str, arguments: tuple[Any, ...], drawn: Any) -> None:
        if door == "release_block":
            self._bought.append(drawn.rows.loss.rho)
        elif door == "release_estimate":
            self._bought.append(drawn.noise.loss.rho)
        elif door == "release_bounds":
            self._bought.append(arguments[0].choice.loss.rho)
        else:
            definition = arguments[0].definition
            self._published[f"{definition.name} {definition!r}"] = arguments[0].loss.rho

    def __call__(
        self, worlds: TwoWorlds, side: Side, step: Step, heard: Heard
    ) -> Iterator[tuple[str, str]]:
        if step.kind == "restore":
            self._off.add(side.name)
        if step.kind == "renews":
            self._daily.add(side.name)
        if not step.is_statement:
            return
        daily = side.name in self._daily and step.account == ACCOUNTS[0]
        window = f"{side.tape.now:%Y-%m-%d}" if daily else ""
        key = (side.name, step.account, window)
        for stream, rho in self._published.items():
            if (key, stream) not in self._streams:
                self._streams.add((key, stream))
                self._bought.append(rho)
        self._shown[key] = self._shown.get(key, 0.0) + sum(self._bought)
        self._bought.clear()
        self._published.clear()
        if side.name in self._off or not step.text.startswith("SHOW BUDGET"):
            return
        worlds.door.counted["accounts priced"] += 1
        account = side.connection(step.account).budget().accounts[0]
        told = (account.spent if daily else account.total).loss.rho
        if told < self._shown[key] * (1 - 1e-9):
            yield "price", f"{self._shown[key]} was shown to {step.account}, who is told {told}"


INVARIANTS: Final[tuple[Callable[[TwoWorlds], Watcher], ...]] = (Words, Parameters, Again, Price)
