"""On the path of a gateway under test alone: Python imports it first of all."""

import os
from pathlib import Path

from tests.chaos.failpoints import CONTROL_VARIABLE, Control, between_admission_and_answer, install

if CONTROL_VARIABLE in os.environ:
    store, _, path = os.environ[CONTROL_VARIABLE].partition(":")
    install(between_admission_and_answer(store), Control(Path(path)))
