package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"machined/init/supervise/logring"
	"machined/reconcile/runtime"
)

// podLogs reads what containers write. The runtime is given pipes in the place of
// files: a log that is a file would have to be kept from filling the card.
type podLogs struct {
	mu    sync.Mutex
	pipes map[string]*podPipe // by path
}

// podPipe is the pipe of one container.
type podPipe struct {
	*os.File
	pod  string
	gone int64 // since boot, when its pod was first seen to be out of the config
}

// podPipeStays is how long a pipe outlives its pod's place in the config: its
// containers may write until they have ended.
const podPipeStays = int64(2 * time.Minute)

// closePodLogs closes the pipes of pods that are not in the config any more. Their
// lines are kept.
func (n *node) closePodLogs(now int64) {
	l := &n.containers.logs
	closed := 0
	l.mu.Lock()
	for path, p := range l.pipes {
		switch {
		case n.runsPod(p.pod):
			p.gone = 0
		case p.gone == 0:
			p.gone = max(now, 1)
		case now-p.gone >= podPipeStays:
			_ = p.Close()
			_ = os.Remove(path)
			delete(l.pipes, path)
			closed++
		}
	}
	l.mu.Unlock()
	if closed > 0 {
		n.trimLogs()
	}
}

func (n *node) runsPod(name string) bool {
	return slices.ContainsFunc(n.settings.Runtime.Pods, func(p runtime.Pod) bool { return p.Name == name })
}

// podLogPrefix begins the names of containers' logs; ids of services have no
// slash.
const podLogPrefix = "pod/"

// podLog is the name of a container's log.
func podLog(pod, container string) string { return podLogPrefix + pod + "/" + container }

// openPodLogs makes the pipes of a pod and reads them from then on. Held open for
// writing too, they never end, whatever the runtime does.
func (n *node) openPodLogs(p *runtime.Pod) error {
	dir := filepath.Join(n.at(podLogDir), p.Name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("make the logs of pod %s: %w", p.Name, err)
	}
	for i := range p.Containers {
		name := p.Containers[i].Name
		path := filepath.Join(dir, runtime.LogName(name))
		pipe, err := n.containers.logs.open(path, p.Name)
		if err != nil {
			return fmt.Errorf("make the log of container %s of pod %s: %w", name, p.Name, err)
		}
		if pipe == nil {
			continue // it is being read
		}
		ring := n.rings.Ring(podLog(p.Name, name), 0)
		n.spawn("logs", func() { readPodLog(pipe, ring.Append) })
	}
	return nil
}

// open makes and opens a pipe; nil when it is open already.
func (l *podLogs) open(path, pod string) (*os.File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pipes[path] != nil {
		return nil, nil
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	// Without waiting for a reader or writer, and so that reads are the poller's
	// and not a thread's.
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if l.pipes == nil {
		l.pipes = make(map[string]*podPipe)
	}
	l.pipes[path] = &podPipe{File: f, pod: pod}
	return f, nil
}

// criLine bounds a line of the runtime's log: its prefix, and the most that it
// puts into one (max_container_log_line_size).
const criLine = 16384 + 128

// readPodLog reads the format of container logs of the CRI: a time, the stream,
// the tag P for a line that goes on or F for its end, and the text, with spaces
// between.
func readPodLog(f *os.File, add func(unixNanos int64, s logring.Stream, text []byte)) {
	lines := bufio.NewReaderSize(f, criLine)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
		if at, stream, text, ok := parseCRILine(line); ok {
			for len(text) > logring.MaxLine {
				add(at, stream, text[:logring.MaxLine])
				text = text[logring.MaxLine:]
			}
			add(at, stream, text)
		}
	}
}

func parseCRILine(line []byte) (unixNanos int64, s logring.Stream, text []byte, ok bool) {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	stamp, rest, ok1 := bytes.Cut(line, []byte{' '})
	stream, rest, ok2 := bytes.Cut(rest, []byte{' '})
	tag, text, ok3 := bytes.Cut(rest, []byte{' '})
	if !ok1 || !ok2 || !ok3 || len(tag) == 0 {
		return 0, 0, nil, false
	}
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return 0, 0, nil, false
	}
	switch string(stream) {
	case "stdout":
	case "stderr":
		s = logring.Stderr
	default:
		return 0, 0, nil, false
	}
	return at.UnixNano(), s, text, true
}
