"""A made-up GPU for the real program: real commands, pages and workers, in which the framework, NVIDIA's management
library and some package versions are made up.

Processes that have :data:`~tests.support.made_up.states.SITE` on their path take part: its ``sitecustomize`` replaces
``core.worker.tensorflow.engine`` by :mod:`tests.support.made_up.engine`, whose steps only sleep. Where
:data:`~tests.support.made_up.states.STATE` names a state (:data:`~tests.support.made_up.states.STATES`) there are cards
as well (:mod:`tests.support.made_up.cards`), which follow what the engines do (:mod:`tests.support.made_up.activity`).
Every name that is shown says that it is made up.
"""
