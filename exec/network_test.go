package exec

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ctxfs/ctxfs/exec/egress"
)

// TestNetworkLogIsBounded reports as many uses as a hostile command causes. The log has a bounded part of each outcome, and how many it left out.
func TestNetworkLogIsBounded(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	log, uses := zap.New(core), &useLog{}
	const many = 50_000
	for i := range many {
		name := fmt.Sprintf("name-%d.test", i)
		uses.write(log, egress.Use{Name: name, Port: 443, Refusal: "the name is not permitted"})
		uses.write(log, egress.Use{Name: name, Port: 443, Err: errors.New("it does not answer")})
	}
	uses.write(log, egress.Use{Name: "good.test", Port: 443, Address: netip.MustParseAddrPort("93.184.216.34:443")})
	uses.end(log)
	lines, counted := map[string]int{}, map[string]int64{}
	for _, e := range logs.All() {
		if fields := e.ContextMap(); fields["name"] != nil {
			lines[e.Message]++
			counted[e.Message]++
		}
		if n, ok := e.ContextMap()["left_out"].(int64); ok {
			counted[e.Message] += n
		}
	}
	for _, outcome := range []string{"network: refused", "network: failed"} {
		if lines[outcome] < useBurst || lines[outcome] > many/10 || counted[outcome] != many {
			t.Errorf("%s: %d lines, %d counted", outcome, lines[outcome], counted[outcome])
		}
	}
	if lines["network: connected"] != 1 {
		t.Errorf("the connection has %d lines", lines["network: connected"])
	}
}
