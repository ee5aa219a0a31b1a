package timesync

import (
	"strconv"
	"strings"
	"time"

	"machined/hal"
)

func words(list string) []string { return strings.Fields(list) }

// candidate is a sample that may be believed.
type candidate struct {
	server string
	offset int64
	// distance bounds the error of offset (RFC 5905, root distance).
	distance int64
}

// maxDistance is the largest error that a server may have (RFC 5905, MAXDIST).
const maxDistance = int64(1500 * time.Millisecond)

// judge says why a sample cannot be believed, "" when it can. now is the wall
// clock.
func judge(t hal.TimeSample, now, floor int64) string {
	switch {
	case sentAway(t.Kiss):
		return "it sends us away: " + t.Kiss
	case t.Kiss != "":
		return "it has no time itself: " + t.Kiss
	case t.Leap == 3 || t.Stratum == 0 || t.Stratum > 15:
		return "it has no time itself"
	case t.Delay < 0 || distance(t) > maxDistance:
		return "its time is too uncertain"
	case now+t.Offset < floor:
		return "its time is before this program was built"
	case now+t.Offset >= Ceiling(floor):
		return "its time is more than " + LifeText + " after this program was built"
	}
	return ""
}

// sentAway reports whether a kiss code asks to be left alone (RFC 5905, section
// 7.4). A server that has just started says others, and has the time soon.
func sentAway(kiss string) bool { return kiss == "DENY" || kiss == "RSTR" || kiss == "RATE" }

func distance(t hal.TimeSample) int64 {
	return t.Delay/2 + t.RootDelay/2 + t.RootDispersion + int64(time.Millisecond)
}

// choose returns the candidate with the smallest error among the largest group
// whose intervals of offset and error have a point in common (after Marzullo).
// ok is false when no group is the majority of those that answered.
func choose(all []candidate) (best candidate, ok bool) {
	size := 0
	for _, at := range all {
		// A largest group has a point in common at somebody's lower end.
		point := at.offset - at.distance
		n, nearest := 0, candidate{distance: 1<<63 - 1}
		for _, c := range all {
			if c.offset-c.distance <= point && point <= c.offset+c.distance {
				n++
				if c.distance < nearest.distance {
					nearest = c
				}
			}
		}
		if n > size || n == size && nearest.distance < best.distance {
			size, best = n, nearest
		}
	}
	return best, 2*size > len(all)
}

// finish judges the answers of a round and sets the clock.
func (s *Sync) finish(now time.Duration) error {
	round := s.round
	s.round = nil
	var all []candidate
	why := "no time server answers"
	for _, q := range round {
		if !q.job.Done() {
			continue
		}
		if err := q.job.Err(); err != nil {
			why = q.server + ": " + err.Error()
			continue
		}
		if trouble := judge(*q.sample, s.Clock.Now(), s.Floor); trouble != "" {
			why = q.server + ": " + trouble
			if sentAway(q.sample.Kiss) {
				s.ban(q.server, now+banned, now)
			}
			continue
		}
		all = append(all, candidate{server: q.server, offset: q.sample.Offset, distance: distance(*q.sample)})
	}
	if len(all) == 0 {
		s.wait(now, why)
		return nil
	}
	best, ok := choose(all)
	if !ok {
		s.wait(now, "the time servers disagree")
		return nil
	}
	if s.doubts(best.offset) {
		s.wait(now, best.server+" is "+strconv.FormatInt(best.offset/int64(time.Second), 10)+" s off; asking again")
		return nil
	}
	return s.set(now, best)
}

// doubts reports whether an offset is one that the clock should not have, and
// that is told for the first time.
func (s *Sync) doubts(offset int64) bool {
	if !s.unlikely(offset) {
		s.doubted = 0
		return false
	}
	same := s.doubted != 0 && s.doubted-offset < agreeWithin && offset-s.doubted < agreeWithin
	s.doubted = offset
	return !same
}

// unlikely reports whether an offset is more than a clock that has been right can
// have, or, before the first word of a server, more than the time for which a
// board is off.
func (s *Sync) unlikely(offset int64) bool {
	if s.status.SyncCount > 0 {
		return offset >= doubtFrom || offset <= -doubtFrom
	}
	now := s.Clock.Now()
	return now+offset-max(now, s.Floor) > offAtMost
}

func (s *Sync) ban(server string, until, now time.Duration) {
	kept := s.bans[:0]
	for _, b := range s.bans {
		if b.until > now && b.server != server {
			kept = append(kept, b)
		}
	}
	s.bans = append(kept, ban{server, until})
}

// set steps or slews the clock and plans the next round.
func (s *Sync) set(now time.Duration, c candidate) error {
	var err error
	if c.offset >= stepFrom || c.offset <= -stepFrom {
		err = s.Clock.Set(s.Clock.Now() + c.offset)
	} else {
		err = s.Clock.Slew(c.offset)
	}
	if err != nil {
		s.wait(now, "the clock cannot be set: "+err.Error())
		return err
	}
	s.pace(c.offset)
	s.retries, s.last, s.doubted = 0, now, 0
	s.next = now + s.poll + s.spread(s.poll/16)
	s.status.Synced, s.status.Server, s.status.OffsetNS, s.status.Message = true, c.server, c.offset, ""
	s.status.SyncCount++
	return nil
}

// pace sets the time to the next round. The clock's rate is left as it is, so
// the offset that gathers in a round says how long one may be.
func (s *Sync) pace(offset int64) {
	if offset < 0 {
		offset = -offset
	}
	switch {
	case offset >= stepFrom:
		s.poll = pollMin
	case offset > shorterFrom:
		s.poll /= 2
	case offset < longerBelow:
		s.poll *= 2
	}
	s.poll = min(max(s.poll, pollMin), pollMax)
}
