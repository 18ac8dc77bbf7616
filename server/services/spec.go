package services

import (
	"github.com/ctxfs/ctxfs/contexts"
	"github.com/ctxfs/ctxfs/contexts/zones"
	ctxfsv1 "github.com/ctxfs/ctxfs/proto/ctxfs/v1"
)

// specOf returns what a request says of the context that it may make.
func specOf(seedFrom []string, layout *ctxfsv1.ZoneLayout) (contexts.Spec, error) {
	return contexts.NewSpec(seedFrom, layoutOf(layout))
}

// zoneModes has the mode of each number. Package zones refuses others.
var zoneModes = map[ctxfsv1.ZoneMode]zones.Mode{
	ctxfsv1.ZoneMode_ZONE_MODE_UNSPECIFIED: "", ctxfsv1.ZoneMode_ZONE_MODE_SANDBOXED: zones.Sandboxed, ctxfsv1.ZoneMode_ZONE_MODE_DIRECT: zones.Direct,
}

func layoutOf(l *ctxfsv1.ZoneLayout) zones.Layout {
	out := zones.Layout{Mode: zoneModes[l.GetMode()]}
	for _, z := range l.GetZones() {
		out.Zones = append(out.Zones, zones.Zone{
			Path: z.GetPath(), From: z.GetFrom(), Dir: z.GetDir(), ReadOnly: z.GetReadOnly(), NeverCommit: z.GetNeverCommit(),
			MaxBytes: z.GetMaxBytes(), Keep: milliseconds(z.GetKeepMs()),
		})
	}
	return out
}
