"""Small faults put into the code one at a time, to see whether a test notices.

``python -m mutation --per-file 10 --jobs 2 --minutes 30`` takes ten faults at random from every
file of the kernels, the metrics and the moments, and runs for each of them the tests that reach
the changed line. The results stand in a database, so a run that was stopped goes on, and
``python -m mutation --report`` prints them. The whole suite over every possible fault would take
days; a seeded sample of them takes an hour and says the same within a few per cent.
"""
