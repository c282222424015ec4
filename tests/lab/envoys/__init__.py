"""What many Envoys cost their driver: `python -m tests.lab.envoys 100 200 400`.

The driver is a process as it ships. Envoys are streams that take up what they are told, and report
loads as often as the driver wishes: a request under way at each member, which is the longest report.
Their process has its own CPU, which is not counted. What is measured is the driver's CPU, so that
a busy machine changes little.
"""
