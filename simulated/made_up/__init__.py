"""A made-up GPU for the real program: real commands, pages and workers.

The framework, NVIDIA's management library and some package versions are made up.

Processes with :data:`~simulated.made_up.states.SITE` on their path take part: its ``sitecustomize`` replaces
``core.worker.tensorflow.engine`` by :mod:`simulated.made_up.engine`, whose steps only sleep. If
:data:`~simulated.made_up.states.STATE` names a state (:data:`~simulated.made_up.states.STATES`) there are cards
as well (:mod:`simulated.made_up.cards`), which follow the engines' activity
(:mod:`simulated.made_up.activity`). Every name that is shown says that it is made up.
"""
