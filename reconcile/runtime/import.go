package runtime

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"machined/hal"
	"machined/reconcile"
)

// Bundle is an image, or several, on the node's own disks.
type Bundle struct {
	Path string
	// Stamp changes with the file's content.
	Stamp string
	// Ref, if it is known, is what is looked for before the file is read.
	Ref string
}

// Importer gives the runtime the images that the card and the system have.
type Importer struct {
	// Bundles lists them. It runs in a job.
	Bundles func() ([]Bundle, error)
	// Files keeps at Marker which of them the runtime has. The file is on the
	// disk of the runtime, whose loss is its loss.
	Files  hal.Files
	Marker string

	job    hal.Job
	void   bool // the job is from before the runtime was away
	done   bool // since the runtime came
	next   time.Duration
	wait   time.Duration
	failed error
}

// reconcile reports whether the images are there. It stands in a file's way no
// longer than one attempt: a pod that needs what cannot be read says so itself.
// busy says that somebody else reads them.
func (i *Importer) reconcile(r *reconcile.Run, cri hal.CRI, jobs hal.Jobs, busy bool) bool {
	if i.job != nil && i.job.Done() {
		i.ended(r.Now)
	}
	switch {
	case i.done || i.job != nil:
	case r.Now < i.next:
		r.WakeAt(i.next)
	case !busy:
		i.job = jobs.Start(func() error { return i.all(cri) })
	}
	return i.done || i.wait > 0
}

func (i *Importer) ended(now time.Duration) {
	err := i.job.Err()
	i.job = nil
	if i.void {
		i.void = false
		return
	}
	if i.failed = err; err == nil {
		i.done = true
		return
	}
	i.wait = min(max(2*i.wait, backoffMin), backoffMax)
	i.next = now + i.wait
}

// anew has it look again: a runtime that comes back may have been made to begin
// anew, and without the image of sandboxes it can run none.
func (i *Importer) anew() {
	i.done, i.next, i.wait, i.failed = false, 0, 0, nil
	i.void = i.job != nil
}

// all imports what has not been. It returns the first error and goes on.
func (i *Importer) all(cri hal.CRI) error {
	bundles, failed := i.Bundles()
	marked, err := i.Files.Read(i.Marker)
	if err != nil && !errors.Is(err, hal.ErrNotFound) {
		failed = reconcile.First(failed, err)
	}
	before := string(marked)
	var marks strings.Builder
	for _, b := range bundles {
		mark := b.mark()
		if !b.known(cri, before, mark) {
			if err := cri.Import(b.Path); err != nil {
				failed = reconcile.First(failed, err)
				continue
			}
		}
		marks.WriteString(mark)
	}
	if now := marks.String(); now != before {
		failed = reconcile.First(failed, i.Files.Replace(i.Marker, []byte(now), false))
	}
	return failed
}

// mark is the line of a bundle in the marker.
func (b Bundle) mark() string { return strconv.Quote(b.Path) + " " + b.Stamp + "\n" }

func (b Bundle) known(cri hal.CRI, before, mark string) bool {
	if b.Ref != "" {
		_, err := cri.Image(b.Ref)
		return err == nil
	}
	return strings.Contains(before, mark)
}

// again imports everything anew, for an image that is missing though it may
// have been imported: it may have been collected. ErrNotFound when it is not among
// them; complete says that all of them could be read.
func (i *Importer) again(cri hal.CRI, ref string) (id string, complete bool, err error) {
	bundles, err := i.Bundles()
	complete = err == nil
	for _, b := range bundles {
		if b.Ref != "" {
			continue
		}
		if err := cri.Import(b.Path); err != nil {
			complete = false
			continue // it stands in no other's way
		}
		switch image, err := cri.Image(ref); {
		case err == nil:
			return image.ID, complete, nil
		case !errors.Is(err, hal.ErrNotFound):
			complete = false
		}
	}
	return "", complete, hal.ErrNotFound
}
