"""What shards save, and how soon another process goes on in the place of a killed one.

ground      a cluster with many records, a driver that counts calls
replicas    processes of one role, each with a part of the work
meters      what a process holds and has read
__main__    measures, and prints ratios
"""
