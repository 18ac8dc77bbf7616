package contexts

import (
	"context"
	"time"

	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/disk"
	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/gate"
	"github.com/ctxfs/ctxfs/contexts/lifecycle"
	"github.com/ctxfs/ctxfs/contexts/rootfs"
	"github.com/ctxfs/ctxfs/contexts/seed"
	"github.com/ctxfs/ctxfs/contexts/seeding"
	"github.com/ctxfs/ctxfs/contexts/zones"
)

// The types of the packages below that users of contexts need. Their documentation is there.
type (
	ID          = catalog.ID
	IDParts     = catalog.IDParts
	Layout      = catalog.Layout
	FormatError = catalog.FormatError
	Events      = catalog.Events
	Spec        = catalog.Spec

	Use       = gate.Use
	Access    = gate.Access
	Pauser    = gate.Pauser
	Remote    = gate.Remote
	Recording = gate.Recording
	Quota     = gate.Quota
	Space     = disk.Space
	DiskUsage = disk.Usage
	Nameless  = disk.Nameless
	Usage     = gate.Usage

	Phase           = seeding.Phase
	Progress        = seeding.Progress
	Plan            = seeding.Plan
	PlanOptions     = seeding.PlanOptions
	Templates       = seeding.Templates
	TemplateOptions = seeding.TemplateOptions
	BuiltTemplate   = seeding.BuiltTemplate
	TemplateUse     = seeding.TemplateUse

	BatchOptions = gate.BatchOptions
	Batched      = gate.Batched

	Snapshot       = lifecycle.Snapshot
	Deleted        = lifecycle.Deleted
	GarbageOptions = lifecycle.GarbageOptions
	Garbage        = lifecycle.Garbage
	GarbageKind    = lifecycle.GarbageKind
	RepairReport   = lifecycle.RepairReport
	Rebuilt        = catalog.Rebuilt
	Verdict        = lifecycle.Verdict
	Rule           = lifecycle.Rule
	Kept           = lifecycle.Kept
	KeepReason     = lifecycle.KeepReason
	Holds          = lifecycle.Holds
	Unless         = lifecycle.Unless
)

// The constants of those types.
const (
	StateFormat = catalog.StateFormat
	ModeUnsafe  = catalog.ModeUnsafe

	Read  = gate.Read
	Write = gate.Write

	PhaseWaiting  = seeding.PhaseWaiting
	PhaseScanning = seeding.PhaseScanning
	PhaseLayering = seeding.PhaseLayering
	PhaseBuilding = seeding.PhaseBuilding
	PhaseCopying  = seeding.PhaseCopying
	PhaseRecord   = seeding.PhaseRecord

	GarbageContext  = lifecycle.GarbageContext
	GarbageLayer    = lifecycle.GarbageLayer
	GarbagePool     = lifecycle.GarbagePool
	GarbageStaging  = lifecycle.GarbageStaging
	GarbageMount    = lifecycle.GarbageMount
	GarbageSnapshot = lifecycle.GarbageSnapshot
	GarbageZone     = lifecycle.GarbageZone

	MinIdle = lifecycle.MinIdle

	RuleRequest  = lifecycle.RuleRequest
	RuleIdleTTL  = lifecycle.RuleIdleTTL
	RuleTTL      = lifecycle.RuleTTL
	RuleMaxBytes = lifecycle.RuleMaxBytes

	KeepNoRule       = lifecycle.KeepNoRule
	KeepTooYoung     = lifecycle.KeepTooYoung
	KeepRecentlyUsed = lifecycle.KeepRecentlyUsed
	KeepUnderLimit   = lifecycle.KeepUnderLimit
	KeepSeeding      = lifecycle.KeepSeeding
	KeepOperation    = lifecycle.KeepOperation
	KeepToken        = lifecycle.KeepToken
	KeepSession      = lifecycle.KeepSession
	KeepHandle       = lifecycle.KeepHandle
	KeepProcess      = lifecycle.KeepProcess
	KeepSubmitted    = lifecycle.KeepSubmitted
	KeepDecisions    = lifecycle.KeepDecisions
	KeepStaged       = lifecycle.KeepStaged
	KeepSite         = lifecycle.KeepSite
	KeepChanges      = lifecycle.KeepChanges
	KeepSnapshots    = lifecycle.KeepSnapshots
)

// Observe returns a context whose operations do not count as a use of a context; see gate.Observe.
func Observe(ctx context.Context) context.Context { return gate.Observe(ctx) }

// NewLayout returns the layout of a workspace, and creates nothing; see catalog.NewLayout.
func NewLayout(workspace, contextsDir string) (Layout, error) {
	return catalog.NewLayout(workspace, contextsDir)
}

// PlanSeed reports what a seeding from a workspace now would copy; see seeding.PlanSeed.
func PlanSeed(ctx context.Context, source seed.Source, settings seed.Options, opts PlanOptions) (Plan, error) {
	return seeding.PlanSeed(ctx, source, settings, opts)
}

// NewSpec returns the Spec of a request; see catalog.NewSpec.
func NewSpec(from []string, layout zones.Layout) (Spec, error) { return catalog.NewSpec(from, layout) }

// ParseID checks a context ID and returns its parts; see catalog.ParseID.
func ParseID(s string) (IDParts, error) { return catalog.ParseID(s) }

// IDForPanel derives a panel's context ID; see catalog.IDForPanel.
func IDForPanel(panelID string) (ID, error) { return catalog.IDForPanel(panelID) }

// UnsafeIDForPanel derives the ID of the context of an unsafe panel, which starts empty.
func UnsafeIDForPanel(panelID string) (ID, error) { return catalog.UnsafeIDForPanel(panelID) }

// TemplateIDForPanel derives the ID of a panel's context that is made from a template.
func TemplateIDForPanel(hash, panelID string) (ID, error) {
	return catalog.TemplateIDForPanel(hash, panelID)
}

// DerivedFrom reports whether an ID, in any form, can be derived from panelID.
func DerivedFrom(id ID, panelID string) bool { return catalog.DerivedFrom(id, panelID) }

// IsFull reports whether dir's file system is full, or cannot take more files. It is false where that is unknown.
func IsFull(dir string) bool { return disk.IsFull(dir) }

// LostStates names the contexts and snapshots in l that came back from a backup without their extended attributes.
func LostStates(l Layout, mounters ...driver.Mounter) []string {
	return lifecycle.LostStates(l, mounters...)
}

// WithoutLayers names the contexts in l that were seeded with a layer that is missing, and cannot be reviewed without it.
func WithoutLayers(l Layout) []string { return lifecycle.WithoutLayers(l) }

// MeasureRest is for how long a context is not measured again; see gate.Rest.
func MeasureRest(took time.Duration) time.Duration { return gate.Rest(took) }

// SpaceOf returns the free space in a description of a file system.
func SpaceOf(st rootfs.Statfs) Space { return disk.SpaceOf(st) }
