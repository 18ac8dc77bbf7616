package contexts

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/ctxfs/ctxfs/fserr"
)

// ID names a context; it is the name of its folder. See ParseID for the forms.
type ID string

// MaxID is the longest ID, in bytes.
const MaxID = 200

// Mode says whether a context is seeded.
type Mode string

// The modes of an ID.
const (
	ModeSafe   Mode = "safe"
	ModeUnsafe Mode = "unsafe"
)

// IDParts is what an ID says.
type IDParts struct {
	Mode Mode
	// TemplateHash is the 12 hex digits of a template context, "" for others.
	TemplateHash string
	InstanceID   string
}

var (
	instancePattern = regexp.MustCompile(`^[A-Za-z0-9._~-]+$`)
	templatePattern = regexp.MustCompile(`^safe_tpl_([0-9a-f]{12})_(.+)$`)
)

// ParseID checks a context ID and takes it apart. The forms are ctx_{instance},
// safe_tpl_{hash12}_{instance} and unsafe_noctx_{instance}; an instance has 1 or
// more of [A-Za-z0-9._~-]. Anything else is EINVAL.
func ParseID(s string) (IDParts, error) {
	p, ok := splitID(s)
	switch {
	case s == "":
		return IDParts{}, badID(s, "it is empty")
	case len(s) > MaxID:
		return IDParts{}, badID(s[:32]+"...", fmt.Sprintf("it has %d bytes, the limit is %d", len(s), MaxID))
	case !ok:
		return IDParts{}, badID(s, "the forms are ctx_NAME, safe_tpl_HASH12_NAME and unsafe_noctx_NAME")
	case !instancePattern.MatchString(p.InstanceID) || strings.Trim(p.InstanceID, ".") == "":
		return IDParts{}, badID(s, "a name has only A-Z a-z 0-9 . _ ~ -, and not dots alone")
	}
	return p, nil
}

func splitID(s string) (IDParts, bool) {
	if m := templatePattern.FindStringSubmatch(s); m != nil {
		return IDParts{Mode: ModeSafe, TemplateHash: m[1], InstanceID: m[2]}, true
	}
	if name, ok := strings.CutPrefix(s, workspacePrefix); ok {
		return IDParts{Mode: ModeSafe, InstanceID: name}, true
	}
	if name, ok := strings.CutPrefix(s, unsafePrefix); ok {
		return IDParts{Mode: ModeUnsafe, InstanceID: name}, true
	}
	return IDParts{}, false
}

func badID(s, why string) error {
	return &fserr.Error{Code: fserr.EINVAL, Kind: fserr.KindContext, Detail: fmt.Sprintf("bad context ID %q: %s", s, why)}
}

// IDForPanel derives a panel's context ID: "ctx_" and the panel's ID with "/" and
// ":" replaced by "~". A panel ID with other characters than [A-Za-z0-9._~-/:],
// or one too long, is EINVAL whose hint is an explicit context ID. The mapping
// is not injective; the records refuse a collision.
func IDForPanel(panelID string) (ID, error) { return derive(workspacePrefix, panelID) }

// UnsafeIDForPanel derives the ID of the context of an unsafe panel, which starts empty. Errors as IDForPanel.
func UnsafeIDForPanel(panelID string) (ID, error) { return derive(unsafePrefix, panelID) }

// TemplateIDForPanel derives the ID of a panel's context made from the template of a hash, of
// which the first 12 digits are taken. Errors as IDForPanel.
func TemplateIDForPanel(hash, panelID string) (ID, error) {
	if len(hash) < templateDigits {
		return "", &fserr.Error{Code: fserr.EINVAL, Kind: fserr.KindContext, Detail: fmt.Sprintf("bad template hash %q", hash)}
	}
	return derive("safe_tpl_"+hash[:templateDigits]+"_", panelID)
}

// The prefixes of IDs, and how many digits of a template's hash one has.
const (
	workspacePrefix = "ctx_"
	unsafePrefix    = "unsafe_noctx_"
	templateDigits  = 12
)

func derive(prefix, panelID string) (ID, error) {
	id := prefix + instanceOf(panelID)
	if _, err := ParseID(id); err != nil || strings.Contains(panelID, "..") {
		return "", &fserr.Error{
			Code: fserr.EINVAL, Kind: fserr.KindContext,
			Detail: fmt.Sprintf("panel ID %.80q has no context ID of its own", panelID),
			Hint:   fmt.Sprintf("use 1 to %d of A-Z a-z 0-9 . _ ~ - / :, without '..', or name an explicit context_id", MaxID-len(prefix)),
		}
	}
	return ID(id), nil
}

func instanceOf(panelID string) string {
	return strings.NewReplacer("/", "~", ":", "~").Replace(panelID)
}

// DerivedFrom reports whether an ID, of whichever form, is one that panelID leads to.
func DerivedFrom(id ID, panelID string) bool {
	p, err := ParseID(string(id))
	return err == nil && p.InstanceID == instanceOf(panelID) && !strings.Contains(panelID, "..")
}
