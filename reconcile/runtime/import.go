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

	job  hal.Job
	done bool // this boot
	next time.Duration
	wait time.Duration
}

// reconcile reports whether the images are there. It stands in a file's way no
// longer than one attempt: a pod that needs what cannot be read says so itself.
func (i *Importer) reconcile(r *reconcile.Run, cri hal.CRI, jobs hal.Jobs) bool {
	if i.done {
		return true
	}
	if i.job == nil {
		if r.Now < i.next {
			r.WakeAt(i.next)
			return true
		}
		i.job = jobs.Start(func() error { return i.all(cri) })
		return i.wait > 0
	}
	if !i.job.Done() {
		return i.wait > 0
	}
	err := i.job.Err()
	i.job = nil
	if i.done = err == nil; !i.done {
		i.wait = min(max(2*i.wait, backoffMin), backoffMax)
		i.next = r.Now + i.wait
		r.WakeAt(i.next)
	}
	return true
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
// have been imported: it may have been collected.
func (i *Importer) again(cri hal.CRI, ref string) (id string, err error) {
	bundles, err := i.Bundles()
	if err != nil {
		return "", err
	}
	for _, b := range bundles {
		if b.Ref != "" {
			continue
		}
		if err := cri.Import(b.Path); err != nil {
			continue // it has been reported
		}
		if image, err := cri.Image(ref); err == nil {
			return image.ID, nil
		}
	}
	return "", hal.ErrNotFound
}
