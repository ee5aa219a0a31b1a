package web

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"machined/tools/netboot/registry"
)

// browser starts Chromium, which is there wherever `make setup` ran.
func browser(t *testing.T) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("there is no chromium; run make setup")
		}
		t.Skip("there is no chromium; run make setup")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.UserDataDir(t.TempDir()), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	return ctx
}

// page is a page in a browser, of which each step has to succeed.
type page struct {
	t   *testing.T
	ctx context.Context
}

func (p page) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// eventually waits for JavaScript to be true.
func (p page) eventually(expression string) {
	p.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if got := p.get(`String(!!(` + expression + `))`); got == "true" {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("waited for %s; the page is %s", expression, p.get(`document.body.innerText`))
		}
	}
}

// get returns the value of JavaScript that is a string.
func (p page) get(expression string) string {
	p.t.Helper()
	s, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](expression))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return s
}

// TestPageInBrowser: the page follows the boards by itself, shows what they say as
// text, and takes decisions.
func TestPageInBrowser(t *testing.T) {
	g := newRig(t, registry.Hold)
	p := page{t, browser(t)}
	if err := chromedp.Do(p.ctx, chromedp.Navigate(g.lab())); err != nil { // starts the browser: no time-out of its own
		t.Fatal(err)
	}
	const row = `document.querySelector('tr[data-id="52-54-00-12-34-56"]')`
	p.eventually(row)
	p.eventually(`document.getElementById('state').textContent === 'live'`)
	if got := p.get(row + `.querySelector('.stage').textContent`); got != "dhcp" {
		t.Errorf("the page shows the stage %q; want dhcp", got)
	}
	g.registry.Transferred(registry.Transfer{Address: loopback, File: `<img src=x onerror="document.title='bad'">`, Bytes: 42, Total: 100})
	g.registry.Fail("52-54-00-12-34-56", "<b>no</b> link")
	p.eventually(row + `.className === 'loading' && ` + row + `.querySelector('.error').textContent !== ''`)
	if got := p.get(row + `.querySelector('.error').textContent`); got != "<b>no</b> link" {
		t.Errorf("the error is shown as %q; want it as text", got)
	}
	if got := p.get(`String(` + row + `.querySelector('progress').value)`); got != "42" {
		t.Errorf("the progress is %s; want 42", got)
	}
	if got := p.get(`document.title`); got != "machined lab" {
		t.Errorf("what a board says was run: the title is %q", got)
	}
	if got := p.get(`performance.getEntriesByType('resource').map(e => e.name).filter(n => !n.startsWith(location.origin) && !n.startsWith('data:')).join()`); got != "" {
		t.Errorf("the page loads %s from elsewhere", got)
	}
	p.do(chromedp.Click(chromedp.CSS(`tr[data-id="52-54-00-12-34-56"] button`))) // accept
	p.eventually(row + `.querySelector('td:last-child span').textContent === 'accept'`)
	if boards, _, _ := g.registry.Boards(0); boards[0].Decision != registry.Accept {
		t.Errorf("the board is %+v; want it accepted by the click", boards[0])
	}
	// A board that comes later is there without a reload, in its place.
	g.registry.Ask(registry.Facts{MAC: "02:00:00:00:00:01"})
	p.eventually(`[...document.querySelectorAll('#boards tr')].map(r => r.dataset.id).join() === '02-00-00-00-00-01,52-54-00-12-34-56'`)
}
