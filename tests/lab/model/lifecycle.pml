/* The same protocol once more, for another checker, written from the rules and not from
   the Python model: marks, claims, the lock, two deregisters, late calls, ends at any time.

   spin -a [-DADDRESS] [-D<weaker>...] lifecycle.pml
   Without ADDRESS members are named after their records, and one record is enough: no
   two meet. With it two records want the one address. Times are ticks; LIFE is the
   longest time from a permission to the last effect of a call.

   With FREES (and ADDRESS) a deregistrar that has ended a record with an answer to each
   call, and that nobody else has called for, says so, and the lock is free at once. With
   TIMED it says so, too, when its own calls without an answer are over.

   With LASTING every run is to end in what is desired, and to stay there: pan -a -f. Fate
   lets faults end some time; then nobody ends, is refused or unanswered, who has two
   records comes to each in turn, and of two registrars, or deregistrars, one goes on.

   Weaker: WAIT, TAKEOVER (numbers), NOLOCK, NOMARKS, NOTAKEOVER, CLEARSTAR, FORGET,
   UNMARKED, EARLYENDS, NOCAS; of FREES: NOSIGN, NOANSWER, SAMENAME; of TIMED: OVER (a
   number); of LASTING: ONCE, RECOUNT, REASK, NOEXPIRY, NOTURNS. */
#define LIFE 1
#define SKEW 1
#ifndef WAIT
#define WAIT 3
#endif
#ifndef TAKEOVER
#define TAKEOVER 2
#endif
#ifndef OVER
#define OVER 1
#endif
#ifdef ADDRESS
#define N 2
#else
#define N 1
#endif
#define ABSENT 0
#define LIVE 1
#define DELETING 2
#define GONE 3
#define NOBODY 0
#define ANYBODY 3
#define DEAD 4
#define NONE 9

bit member;                                   /* the load balancer has the address */
byte phase[N]; bit placed[N]; bit registered[N]; byte mark[N];
byte since[N];                                /* ticks since the deletion */
bit ensured[N]; bit over[N];                  /* ever took effect; ended for good */
byte holder; byte vacant;                     /* of the lock; ticks since it is gone */
byte which[4]; bit fresh[4]; byte age[4];     /* age: 0 no permission, else 1 + ticks */
bit claims[4]; bit doubts[4];                 /* of registrar w on record r: 2 * r + w */
byte late_ensure[N]; byte late_end[N];        /* 0 none, else 1 + ticks */

byte ender[N];                                /* 0 unknown, else 1 + a deregistrar */
bit open_[4]; bit knows[4];                   /* of deregistrar w on record r */
byte rest[4];                                 /* ticks until its late calls are over */
bit freed;                                    /* written of the lock's holder */
#ifdef LASTING
bit calm;                                     /* faults are over */
#define MAYBE !calm
#define GIVEUP !calm ->
#define OTHERWISE else ->
#else
#define MAYBE 1
#define GIVEUP
#define OTHERWISE
#endif
#ifdef ONCE
bit refused[N];                               /* nobody comes again */
#define DUE(r) (!refused[r])
#else
#define DUE(r) (1)
#endif
#if defined(LASTING) && !defined(NOTURNS)
#define CHOOSE(r) if :: N > 1 -> r = 1 - r :: else -> r = 0 fi
#else
#define CHOOSE(r) if :: r = 0 :: N > 1 -> r = N - 1 fi
#endif
#define SERVED(r) (phase[r] == LIVE && registered[r] && member)
#define DESIRED (phase[0] != ABSENT && phase[0] != DELETING && phase[N - 1] != DELETING && \
                 ((phase[0] != LIVE && phase[N - 1] != LIVE) || SERVED(0) || SERVED(N - 1)))
#define NOBODYS 8
#define EVERYBODYS 9

#define MINE(w, r) (2 * (r) + (w))
#define ENDS(w, r) (2 * (r) + (w) - 2)
#define ALONE(w, r, me) ((!doubts[MINE(w, r)]) && \
                         (mark[r] == me || (claims[MINE(w, r)] && mark[r] == NOBODY)))
#ifdef NOCAS
#define MAYWRITE(w, r) (phase[r] == LIVE || phase[r] == DELETING)
#else
#define MAYWRITE(w, r) (fresh[w])
#endif
#define SETTLED(r) (registered[r] && mark[r] == NOBODY)
#ifdef NOLOCK
#define FREE(r) (1)
#else
#define FREE(r) (holder == 0 || holder == (r) + 1 || \
                 (phase[holder - 1] == GONE && (EXPIRED || freed)))
#endif
#ifdef NOEXPIRY
#define EXPIRED (0)
#else
#define EXPIRED (vacant >= TAKEOVER)
#endif
#define HELD(r) ((phase[r] == LIVE || phase[r] == DELETING) && (placed[r] || ensured[r]))
#define WRONG(r) (phase[r] == LIVE && registered[r] && !member)

inline wrote(r) {                             /* all that was read of r is outdated */
  byte k;
  for (k : 0 .. 3) { if :: which[k] == r -> fresh[k] = 0 :: else fi };
  k = 0
}
inline executes_ensure(r) {
  assert(!(over[r] && !member));              /* S3 */
  member = 1; ensured[r] = 1
}
inline goes(r) {
  assert(!(ensured[r] && !over[r]));          /* S5 */
  phase[r] = GONE; registered[r] = 0; mark[r] = NOBODY; since[r] = 0;
  claims[MINE(0, r)] = 0; claims[MINE(1, r)] = 0;
  doubts[MINE(0, r)] = 0; doubts[MINE(1, r)] = 0;
  open_[ENDS(2, r)] = 0; open_[ENDS(3, r)] = 0; ender[r] = 0;
  if :: !knows[ENDS(2, r)] -> rest[ENDS(2, r)] = 0 :: else fi;
  if :: !knows[ENDS(3, r)] -> rest[ENDS(3, r)] = 0 :: else fi;
  wrote(r);
  if :: holder == r + 1 -> vacant = 0 :: else fi
}
inline left_alone(queue, a) { if :: queue == 0 || a < queue -> queue = a :: else fi }
inline permit(w, r) { which[w] = r; fresh[w] = 1; age[w] = 1 }
inline judge() {
  assert(!(member && !HELD(0) && !HELD(N - 1)));     /* S1 */
  assert(!WRONG(0) && !WRONG(N - 1))                 /* S2 */
}

proctype Registrar(byte me) {
  byte r, w; bit alone;
  w = me - 1;
idle:
  atomic { which[w] = NONE; fresh[w] = 0; age[w] = 0; alone = 0; CHOOSE(r) };
#ifdef LASTING
  if :: calm && me == 2 -> goto over_ :: else fi;
#endif
  if
#ifdef REASK
  :: atomic { phase[r] == LIVE && !placed[r] && !FREE(r) && vacant -> vacant = 0 }; goto idle
#endif
#ifdef ADDRESS
  :: atomic { phase[r] == LIVE && !placed[r] && FREE(r) ->
       if
       :: holder != r + 1 ->
          freed = 0; knows[0] = 0; knows[1] = 0; knows[2] = 0; knows[3] = 0;
          rest[0] = 0; rest[1] = 0; rest[2] = 0; rest[3] = 0
       :: else
       fi;
       holder = r + 1; vacant = 0; which[w] = r; fresh[w] = 1 }; goto place
#else
  :: atomic { phase[r] == ABSENT ->
       phase[r] = LIVE; placed[r] = 1; claims[MINE(w, r)] = 1; permit(w, r) }; goto send
#endif
  :: atomic { phase[r] == LIVE && placed[r] && !registered[r] ->
       alone = ALONE(w, r, me);
       if
       :: mark[r] == ANYBODY || alone
#ifdef NOTAKEOVER
       :: mark[r] != NOBODY && mark[r] != me && mark[r] != ANYBODY
#else
       :: mark[r] != ANYBODY && !alone -> wrote(r); mark[r] = ANYBODY
#endif
       :: mark[r] == NOBODY && !alone -> wrote(r); mark[r] = ANYBODY
       fi;
       permit(w, r) }; goto send
  :: atomic { MAYBE && (mark[0] == me || mark[N - 1] == me || claims[w] || doubts[w]) ->
       goto stop }
  :: OTHERWISE goto idle
  fi;
place:
  if
  :: atomic { MAYWRITE(w, r) -> wrote(r); placed[r] = 1; mark[r] = me; permit(w, r);
#ifdef FREES
       if
       :: ender[r] = 0
       :: ender[r] = 3
#ifdef TWO_ENDS
       :: ender[r] = 4
#endif
       fi
#endif
     };
     goto send
  :: atomic { !MAYWRITE(w, r) -> goto idle }
  :: GIVEUP goto stop
  fi;
send:
  if :: goto sent :: GIVEUP goto idle :: GIVEUP goto stop fi;
sent:
  if
  :: atomic { executes_ensure(r); age[w] = 0 }; goto answered
  :: atomic { MAYBE; left_alone(late_ensure[r], age[w]);
#ifndef FORGET
       doubts[MINE(w, r)] = 1;
#endif
       goto idle }
  :: atomic { MAYBE; left_alone(late_ensure[r], age[w]); goto stop }
  fi;
answered:
  if
  :: atomic { fresh[w] ->
       alone = ALONE(w, r, me);
#ifdef CLEARSTAR
       alone = (alone || !doubts[MINE(w, r)]);
#endif
       wrote(r); registered[r] = 1;
       mark[r] = (alone -> NOBODY : ANYBODY);
       judge() }; goto idle
  :: atomic { !fresh[w] -> goto idle }
  :: GIVEUP goto stop
  fi;
stop:
  atomic { claims[w] = 0; doubts[w] = 0;
    if :: N > 1 -> claims[MINE(w, N - 1)] = 0; doubts[MINE(w, N - 1)] = 0 :: else fi;
    if :: mark[0] == me -> mark[0] = DEAD :: else fi;
    if :: mark[N - 1] == me -> mark[N - 1] = DEAD :: else fi };
  goto idle;
#ifdef LASTING
over_: skip
#endif
}

proctype Deregistrar(byte w) {
  byte r; bit counts;
idle:
  atomic { which[w] = NONE; fresh[w] = 0; age[w] = 0; counts = 0; CHOOSE(r) };
#ifdef LASTING
  if :: calm && w == 3 -> goto over_ :: else fi;
#endif
  if
  :: atomic { phase[r] == DELETING && !placed[r] -> which[w] = r; fresh[w] = 1 };
     goto release
  :: atomic { phase[r] == DELETING && placed[r] && DUE(r) ->
#ifdef RECOUNT
       since[r] = 0;
#endif
       counts = SETTLED(r) || since[r] + SKEW >= WAIT;
#ifdef NOMARKS
       counts = counts || registered[r];
#endif
#ifdef UNMARKED
       counts = counts || mark[r] == NOBODY;
#endif
#ifdef EARLYENDS
       counts = 1;
#endif
#ifdef FREES
#ifndef NOSIGN
       if
       :: ender[r] != 0 && ender[r] != w + 1 && ender[r] != EVERYBODYS ->
          wrote(r); ender[r] = EVERYBODYS
       :: else
       fi;
#endif
#endif
       permit(w, r) }
#ifdef FREES
  :: atomic { holder && !freed && knows[ENDS(w, holder - 1)] &&
              !rest[ENDS(w, holder - 1)] ->
       freed = 1; knows[ENDS(w, holder - 1)] = 0 }; goto idle
  :: atomic { MAYBE && (
              open_[ENDS(w, 0)] || open_[ENDS(w, N - 1)] || knows[ENDS(w, 0)] ||
              knows[ENDS(w, N - 1)] || ender[0] == w + 1 || ender[N - 1] == w + 1) ->
       open_[ENDS(w, 0)] = 0; open_[ENDS(w, N - 1)] = 0;
       knows[ENDS(w, 0)] = 0; knows[ENDS(w, N - 1)] = 0;
       rest[ENDS(w, 0)] = 0; rest[ENDS(w, N - 1)] = 0;
#ifndef SAMENAME
       if :: ender[0] == w + 1 -> ender[0] = NOBODYS :: else fi;
       if :: ender[N - 1] == w + 1 -> ender[N - 1] = NOBODYS :: else fi
#endif
     }; goto idle
#endif
  :: OTHERWISE goto idle
  fi;
#ifdef ONCE
  if :: skip :: GIVEUP refused[r] = 1; goto idle fi;
#else
  if :: skip :: GIVEUP goto idle fi;
#endif
  if
  :: atomic { member = 0; age[w] = 0; judge() }
  :: atomic { MAYBE; left_alone(late_end[r], age[w]);
#ifdef FREES
#ifdef TIMED
       if
       :: rest[ENDS(w, r)] < LIFE + OVER + 1 - age[w] ->
          rest[ENDS(w, r)] = LIFE + OVER + 1 - age[w]
       :: else
       fi;
#else
#ifndef NOANSWER
       open_[ENDS(w, r)] = 1;
#endif
#endif
#endif
       goto idle }
  fi;
  if
  :: atomic { counts -> over[r] = 1 }
  :: OTHERWISE goto idle
  fi;
release:
  if
  :: atomic { MAYWRITE(w, r) && phase[r] == DELETING ->
#ifdef FREES
       if
       :: holder == r + 1 && (!placed[r] || (ender[r] == w + 1 && !open_[ENDS(w, r)])) ->
          knows[ENDS(w, r)] = 1
       :: else
       fi;
#endif
       goes(r); judge(); goto idle }
  :: atomic { !(MAYWRITE(w, r) && phase[r] == DELETING) -> goto idle }
  :: GIVEUP goto idle
  fi;
#ifdef LASTING
  goto idle;
over_: skip
#endif
}

active proctype Users() {
  do
#ifdef ADDRESS
  :: atomic { phase[0] == ABSENT -> phase[0] = LIVE }
  :: atomic { MAYBE && phase[0] != ABSENT && phase[1] == ABSENT -> phase[1] = LIVE }
  :: atomic { MAYBE && phase[1] == LIVE -> phase[1] = DELETING; since[1] = 0; wrote(1) }
#endif
  :: atomic { MAYBE && phase[0] == LIVE -> phase[0] = DELETING; since[0] = 0; wrote(0) }
  od
}

active proctype Network() {
  do
  :: atomic { MAYBE && late_ensure[0] -> executes_ensure(0) }
  :: atomic { late_ensure[0] -> late_ensure[0] = 0 }
  :: atomic { MAYBE && late_end[0] -> member = 0; judge() }
  :: atomic { late_end[0] -> late_end[0] = 0 }
#ifdef ADDRESS
  :: atomic { MAYBE && late_ensure[1] -> executes_ensure(1) }
  :: atomic { late_ensure[1] -> late_ensure[1] = 0 }
  :: atomic { MAYBE && late_end[1] -> member = 0; judge() }
  :: atomic { late_end[1] -> late_end[1] = 0 }
#endif
  od
}

#define YOUNG(x) (x <= LIFE)
#define OLDER(x) if :: x > 0 -> x++ :: else fi
#define ENDING(x) if :: x > 0 -> x-- :: else fi
#define AGING(r) (late_ensure[r] || late_end[r] || \
                  (phase[r] == DELETING && since[r] < WAIT) || \
                  (holder == r + 1 && phase[r] == GONE && vacant < TAKEOVER))

inline ages(r) {
  OLDER(late_ensure[r]); OLDER(late_end[r]);
  if :: phase[r] == DELETING && since[r] < WAIT -> since[r]++ :: else fi;
  if :: holder == r + 1 && phase[r] == GONE && vacant < TAKEOVER -> vacant++ :: else fi
}

active proctype Clock() {
  do
  :: atomic {
       YOUNG(age[0]) && YOUNG(age[1]) && YOUNG(age[2]) && YOUNG(age[3]) &&
       YOUNG(late_ensure[0]) && YOUNG(late_end[0]) &&
       YOUNG(late_ensure[N - 1]) && YOUNG(late_end[N - 1]) &&
       (age[0] || age[1] || age[2] || age[3] || AGING(0) || AGING(N - 1) ||
        rest[0] || rest[1] || rest[2] || rest[3]) ->
       ENDING(rest[0]); ENDING(rest[1]); ENDING(rest[2]); ENDING(rest[3]);
       OLDER(age[0]); OLDER(age[1]); OLDER(age[2]); OLDER(age[3]);
       ages(0);
#ifdef ADDRESS
       ages(1)
#endif
     }
  od
}

init {
  atomic {
    which[0] = NONE; which[1] = NONE; which[2] = NONE; which[3] = NONE;
    run Registrar(1);
#ifdef TWO
    run Registrar(2);
#endif
    run Deregistrar(2);
#ifdef TWO_ENDS
    run Deregistrar(3)
#endif
  }
}

#ifdef LASTING
active proctype Fate() { calm = 1 }
ltl settled { <>[] DESIRED }
#endif
