"""A page's tables on a search by trials: start and winner in turn, and what users lost and gained meanwhile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from trimtab.core import Objective
from trimtab.referee.turns import Claim, Seen, better, candidates_turns, factor
from trimtab.report.sheet import Table
from trimtab.report.text import seconds, setting, shown
from trimtab.report.track import Track
from trimtab.search.evidence import Told
from trimtab.search.matter import Matter, which_matter
from trimtab.trials import Search, SearchState, against_start, harm


def tables(track: Track) -> list[Table]:
    """The tables of a run's search, from its evidence; none where it has none."""
    state, search = track.search, track.run.plan.search
    if state is None or search is None or not state.trials:
        return []
    objective = track.run.plan.settings.objective
    return [
        _winner(state),
        _turns(state, search, objective),
        _knobs(state, objective),
        _users(state, search, objective),
    ]


def _winner(state: SearchState[Any]) -> Table:
    """Knobs that the winner sets otherwise than the start."""
    rows = [
        (name, *(setting(name, one.get(name), state.knobs) for one in (state.start, state.winner)))
        for name in (knob.name for knob in state.knobs)
        if state.winner.get(name) != state.start.get(name)
    ]
    return Table("The winner of the search", ("knob", "start", "winner"), rows if state.winner else [])


def mattering(state: SearchState[Any], objective: Objective) -> tuple[Matter, ...]:
    """Which knobs matter, as far as the trials of a search tell; those that do first."""
    told = [
        Told(tuple(one.configuration[knob.name] for knob in state.knobs), one.log_cost(objective), pace=one.pace)
        for one in state.trials
        if one.value is not None and one.value > 0 and len(one.configuration) == len(state.knobs)
    ]
    return which_matter(state.knobs, told)


def _knobs(state: SearchState[Any], objective: Objective) -> Table:
    """Effect of each knob, by the trials."""
    found = mattering(state, objective)
    rows = [(one.knob, "yes" if one.matters else "not told apart", one.said) for one in found]
    return Table(
        "Which knobs matter",
        ("knob", "matters", "from the least value tried to the greatest; 1 interval in 20 errs"),
        rows,
    )


def _turns(state: SearchState[Any], search: Search, objective: Objective) -> Table:
    """Start and winner, measured in turn."""
    pairs, name = (list[Seen](), list[Seen]()), objective.metric
    for one, of_winner in zip(state.turns, candidates_turns(search.remeasure, state.rounds), strict=False):
        pairs[of_winner].append(one)
    rows = [
        (
            *(str(i + 1), shown(name, start.value), shown(name, winner.value), _times(start, winner, objective)),
            _slower(start, winner),
        )
        for i, (start, winner) in enumerate(zip(*pairs, strict=False))
    ]
    if state.claim is not None:
        rows.append(("all", "", "", _interval(state.claim), ""))
    head = ("turn", f"{name}, start", f"{name}, winner", "times better", "machine slower under the winner")
    return Table("Measured again in turn", head, rows if state.turns else [])


def _slower(start: Seen, winner: Seen) -> str:
    """How much longer the machine took for a fixed computation under the winner, in one turn."""
    known = start.pace is not None and winner.pace is not None
    return f"{math.expm1((winner.pace or 0.0) - (start.pace or 0.0)):+.1%}" if known else "-"


def _times(start: Seen, winner: Seen, objective: Objective) -> str:
    """How many times better the winner was in one turn."""
    if not start.value or not winner.value:
        return "-"
    return factor(better(winner.value, start.value, objective))


def _interval(claim: Claim) -> str:
    """Gain over all turns, with its interval and the verdict."""
    if claim.gain is None or claim.low is None or claim.high is None:
        return str(claim.verdict)
    return f"{factor(claim.gain)} ({factor(claim.low)} to {factor(claim.high)}): {claim.verdict}"


def _users(state: SearchState[Any], search: Search, objective: Objective) -> Table:
    """Time that users lost and gained during the search, in work of the start configuration."""
    lost_s, gained_s = harm(state, objective)
    whole_s = sum(one.duration_s for one in state.trials) * state.made / len(state.trials) or 1.0
    worse = sum(times < 0.9 for times in against_start(state, objective))
    most_s = search.budget_s
    rows: Sequence[tuple[str, str]] = (
        ("trials", f"{state.made} of {search.trials}; ended because {state.ended or 'the run was stopped'}"),
        *([("before them", f"{state.warming} windows until the start was warm and read")] if state.warming else []),
        ("lost", f"{seconds(lost_s)} of the start's work, {lost_s / whole_s:.1%} of the time of the trials"),
        ("gained", f"{seconds(gained_s)}, {gained_s / whole_s:.1%}"),
        ("trials worse than 0.9 of the start", f"{worse} of {len(state.trials)}"),
        *([] if most_s is None else [("could be lost", f"{seconds(most_s)}, the budget of harm")]),
    )
    return Table("What users lost and gained while it searched", (), rows)
