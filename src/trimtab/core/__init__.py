"""The words of trimtab as types: no I/O, no clock, no randomness."""

from trimtab.core.controller import Controller
from trimtab.core.finding import Finding
from trimtab.core.guard import Guard
from trimtab.core.knob import Domain, How, Knob
from trimtab.core.metric import METRICS, Metric, metric, of_class
from trimtab.core.move import Move
from trimtab.core.objective import Objective
from trimtab.core.plant import Applied, Clock, Habits, Plant, Sensor
from trimtab.core.window import Configuration, Readings, Window

__all__ = [
    "METRICS",
    "Applied",
    "Clock",
    "Configuration",
    "Controller",
    "Domain",
    "Finding",
    "Guard",
    "Habits",
    "How",
    "Knob",
    "Metric",
    "Move",
    "Objective",
    "Plant",
    "Readings",
    "Sensor",
    "Window",
    "metric",
    "of_class",
]
