package contexts

import (
	"github.com/ctxfs/ctxfs/contexts/catalog"
	"github.com/ctxfs/ctxfs/contexts/disk"
	"github.com/ctxfs/ctxfs/contexts/driver"
	"github.com/ctxfs/ctxfs/contexts/gate"
	"github.com/ctxfs/ctxfs/contexts/lifecycle"
	"github.com/ctxfs/ctxfs/contexts/seeding"
)

// The words of the packages below that users of contexts need. Their documentation is there.
type (
	// ID names a context; it is the name of its folder.
	ID = catalog.ID
	// IDParts are the parts of an ID.
	IDParts = catalog.IDParts
	// Layout names every path that ctxfs keeps beside a workspace.
	Layout = catalog.Layout
	// FormatError reports that a newer ctxfs wrote the state.
	FormatError = catalog.FormatError
	// Events receives what happens to contexts.
	Events = catalog.Events

	// Use is the way in which an operation uses a context.
	Use = gate.Use
	// Access is an open gate.
	Access = gate.Access
	// Quota bounds the space that one context takes.
	Quota = gate.Quota

	// Phase is a step of seeding.
	Phase = seeding.Phase
	// Progress of a seeding.
	Progress = seeding.Progress
	// Plan says what a seeding would copy.
	Plan = seeding.Plan
	// PlanOptions of Manager.PlanSeed.
	PlanOptions = seeding.PlanOptions
	// Templates prepares what template contexts are made from.
	Templates = seeding.Templates
	// TemplateOptions say where templates find their repositories.
	TemplateOptions = seeding.TemplateOptions
	// BuiltTemplate is the result of Templates.Build.
	BuiltTemplate = seeding.BuiltTemplate
	// TemplateUse is a template that is built, and the number of its contexts.
	TemplateUse = seeding.TemplateUse

	// Snapshot is a copy of a context at some time.
	Snapshot = lifecycle.Snapshot
	// Deleted is the result of Manager.Delete.
	Deleted = lifecycle.Deleted
	// GarbageOptions of Manager.CollectGarbage.
	GarbageOptions = lifecycle.GarbageOptions
	// Garbage is an item that a collection removed.
	Garbage = lifecycle.Garbage
	// GarbageKind is a kind of garbage.
	GarbageKind = lifecycle.GarbageKind
	// RepairReport is the result of Manager.Repair.
	RepairReport = lifecycle.RepairReport
	// LostState is a context or snapshot that lost its extended attributes.
	LostState = lifecycle.LostState
)

// Constants of those types.
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
)

// NewLayout returns the layout of a workspace, and creates nothing; see catalog.NewLayout.
func NewLayout(workspace, contextsDir string) (Layout, error) {
	return catalog.NewLayout(workspace, contextsDir)
}

// ParseID checks a context ID and returns its parts.
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

// LostStates lists the states in l that came back from a backup without their extended attributes. It changes nothing.
func LostStates(l Layout, mounters []driver.Mounter) []LostState {
	return lifecycle.LostStates(l, mounters)
}
