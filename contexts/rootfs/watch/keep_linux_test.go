package watch

import "testing"

// TestKeptInstanceServesAllWatches releases the last watch while the instance is kept: the next watch needs no other one.
func TestKeptInstanceServesAllWatches(t *testing.T) {
	t.Parallel()
	var o hubOwner
	release, err := o.keep()
	if err != nil {
		t.Fatal(err)
	}
	kept := o.hub
	for range 2 { // as watches do
		if hub, err := o.acquire(); err != nil || hub != kept {
			t.Errorf("got another instance, %v", err)
		}
		o.release()
	}
	release()
	if o.hub != nil {
		t.Error("the instance stays")
	}
}
