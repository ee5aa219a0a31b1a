package runtime

import (
	"errors"
	"strings"
	"time"

	"machined/hal"
	"machined/reconcile"
)

const (
	// maxPulls is how many images are pulled at once, and maxPullsInAll with those
	// that nobody waits for any more: a pull cannot be called off.
	maxPulls, maxPullsInAll = 3, 8
	// readAgain is the pause before what could not be read of the card is tried
	// again for an image that is nowhere else.
	readAgain = 5 * time.Minute
	never     = time.Duration(1<<63 - 1)
)

// fetch gets an image for the pods that wait for it. It is none of their jobs: a
// pull may take an hour, and a pod whose spec changes meanwhile goes its way.
type fetch struct {
	ref    string
	job    hal.Job
	id     *string // what the job has found
	pulls  bool    // the job is a pull, and not a look at what the node has
	absent bool    // the node does not have it: a pull is next
	// What the card has is read anew for it once, and not for each pull: it may
	// take minutes. Where some of it could not be read, that is tried again.
	complete *bool
	readNext time.Duration
	secret   string // password of the pull
	next     time.Duration
	backoff  time.Duration
	failed   string
}

// images reports whether the images of containers are there. Those that are not
// are got.
func (p *Pods) images(s *podState, containers ...*containerState) bool {
	all := true
	for _, c := range containers {
		if c.image != "" {
			continue
		}
		all, c.waits, s.waiting = false, true, c.Image
		if p.fetch(c.Image) == nil {
			p.fetches = append(p.fetches, &fetch{ref: c.Image})
		}
	}
	return all
}

func (p *Pods) fetch(ref string) *fetch {
	for _, f := range p.fetches {
		if f.ref == ref {
			return f
		}
	}
	return nil
}

// awaited reports whether a pod waits for an image.
func (p *Pods) awaited(ref string) bool {
	for _, s := range p.pods {
		for _, c := range s.containers {
			if c.waits && c.Image == ref {
				return true
			}
		}
	}
	return false
}

// fetched takes in the fetches that have ended, and forgets those that nobody
// waits for.
func (p *Pods) fetched(now time.Duration) {
	kept := p.fetches[:0]
	for _, f := range p.fetches {
		if f.job != nil && f.job.Done() {
			if f.ended(now) {
				p.give(f.ref, *f.id)
				continue
			}
		}
		if f.job != nil || p.awaited(f.ref) {
			kept = append(kept, f)
		}
	}
	for i := len(kept); i < len(p.fetches); i++ {
		p.fetches[i] = nil
	}
	p.fetches = kept
}

func (f *fetch) ended(now time.Duration) (found bool) {
	err := f.job.Err()
	f.job = nil
	if err == nil {
		return true
	}
	if !f.pulls && errors.Is(err, hal.ErrNotFound) {
		f.absent = true
		switch {
		case *f.complete:
			f.readNext = never
		case now >= f.readNext:
			f.readNext = now + readAgain
		}
		return false
	}
	f.failed, f.absent = hidden(err.Error(), f.secret), false
	f.backoff = min(max(2*f.backoff, backoffMin), backoffMax)
	f.next = now + f.backoff
	return false
}

// hidden returns a text without a password: some errors tell all that was tried.
func hidden(text, password string) string {
	if password == "" {
		return text
	}
	return strings.ReplaceAll(text, password, "***")
}

// give tells the pods of an image that is there.
func (p *Pods) give(ref, id string) {
	for _, s := range p.pods {
		for _, c := range s.containers {
			if c.Image == ref {
				c.image, c.waits = id, false
			}
		}
	}
}

// get starts what is due of the fetches.
func (p *Pods) get(r *reconcile.Run) {
	looking, pulling, all := p.Images.job != nil, 0, 0
	for _, f := range p.fetches {
		switch {
		case f.job == nil:
		case !f.pulls:
			looking = true
		default:
			all++
			if p.awaited(f.ref) {
				pulling++
			}
		}
	}
	for _, f := range p.fetches {
		switch {
		case f.job != nil:
		case r.Now < f.next:
			r.WakeAt(f.next)
		case f.absent:
			if pulling < maxPulls && all < maxPullsInAll {
				f.pull(p)
				pulling++
				all++
			}
		case !looking:
			// One at a time: it may read all that the card has.
			f.look(p, r.Now >= f.readNext)
			looking = true
		}
	}
}

func (f *fetch) look(p *Pods, read bool) {
	id, complete, cri, ref, importer := new(string), new(bool), p.CRI, f.ref, p.Images
	f.id, f.complete, f.pulls = id, complete, false
	f.job = p.Jobs.Start(func() error {
		image, err := cri.Image(ref)
		if err == nil {
			*id = image.ID
			return nil
		}
		if !read || !errors.Is(err, hal.ErrNotFound) {
			return err
		}
		*id, *complete, err = importer.again(cri, ref)
		return err
	})
}

func (f *fetch) pull(p *Pods) {
	id, cri, ref, auth := new(string), p.CRI, f.ref, p.of.auth(f.ref)
	f.id, f.pulls, f.secret = id, true, auth.Password
	f.job = p.Jobs.Start(func() (err error) {
		*id, err = cri.PullImage(ref, auth)
		return err
	})
}

// anew has images looked for at once: the config is another, or the runtime has
// been away and may have lost what it had.
func (p *Pods) anew(lost bool) {
	for _, f := range p.fetches {
		f.next, f.backoff = 0, 0
		if lost {
			f.absent, f.readNext = false, 0
		}
	}
	if !lost {
		return
	}
	for _, s := range p.pods {
		for _, c := range s.containers {
			c.image = ""
		}
	}
}

// looking reports whether a fetch reads what the node has.
func (p *Pods) looking() bool {
	for _, f := range p.fetches {
		if f.job != nil && !f.pulls {
			return true
		}
	}
	return false
}
