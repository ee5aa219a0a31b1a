package probe

import (
	"context"
	"fmt"
	"time"

	"machined/init/supervise"
)

// Ask asks once, by a probe of another kind than ProbeExec, and waits for the
// answer within the probe's time-out.
func Ask(p supervise.Probe) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(p.Timeout))
	defer cancel()
	err := (&Prober{}).ask(ctx, &supervise.Service{Probe: &p})
	if err != nil && late(ctx, err) {
		return fmt.Errorf("no answer within %s", time.Duration(p.Timeout))
	}
	return err
}
