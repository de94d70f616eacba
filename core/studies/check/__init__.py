"""The regression check: has a step become slower? Two checkouts or two Python environments measured in turn, or one
against a stored run.
"""
