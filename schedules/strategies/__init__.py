"""stub"""
class _S:
    default={}
    def __init__(s,o): s.o=o
    def schedule(s,c):
        from tensorlang.schedules.schedule import Schedule
        return Schedule(s.o)
def choose(outputs,target,threads): return _S(outputs)
