"""The concepts of trimtab as types: no I/O, no clock, no randomness."""

from trimtab.core.controller import Controller
from trimtab.core.finding import Finding
from trimtab.core.guard import Guard
from trimtab.core.knob import Domain, How, Knob, Role, by_label, in_words, of_role
from trimtab.core.metric import Metric, of_class
from trimtab.core.move import Move
from trimtab.core.objective import Limit, Objective
from trimtab.core.plant import (
    Applied,
    Drawing,
    Plant,
    PlantDefaults,
    Prepared,
    Subject,
    give_up,
    notes_of,
    take_back,
)
from trimtab.core.sensor import Clock, Precedence, Sensor
from trimtab.core.trial import Fate, Judgement, MoveState, Trial, Verdict
from trimtab.core.window import Configuration, Reading, Readings, Window

__all__ = [
    "Applied",
    "Clock",
    "Configuration",
    "Controller",
    "Domain",
    "Drawing",
    "Fate",
    "Finding",
    "Guard",
    "How",
    "Judgement",
    "Knob",
    "Limit",
    "Metric",
    "Move",
    "MoveState",
    "Objective",
    "Plant",
    "PlantDefaults",
    "Precedence",
    "Prepared",
    "Reading",
    "Readings",
    "Role",
    "Sensor",
    "Subject",
    "Trial",
    "Verdict",
    "Window",
    "by_label",
    "give_up",
    "in_words",
    "notes_of",
    "of_class",
    "of_role",
    "take_back",
]
