package catalog

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

// IDParts are the parts of an ID.
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

// ParseID checks a context ID and returns its parts. The forms are ctx_{instance}, safe_tpl_{hash12}_{instance} and
// unsafe_noctx_{instance}; an instance has 1 or more of [A-Za-z0-9._~-]. It fails with EINVAL for anything else.
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

// IDForPanel derives a panel's context ID: "ctx_" and the panel's ID with "/" and ":" replaced by "~". It fails with EINVAL
// if the panel ID is too long or has characters other than [A-Za-z0-9._~-/:]; the hint is an explicit context ID. Two panel
// IDs may lead to the same context ID; the records refuse the second panel.
func IDForPanel(panelID string) (ID, error) { return derive(workspacePrefix, panelID) }

// UnsafeIDForPanel derives the ID of the context of an unsafe panel, which starts empty. Errors as IDForPanel.
func UnsafeIDForPanel(panelID string) (ID, error) { return derive(unsafePrefix, panelID) }

// TemplateIDForPanel derives the ID of a panel's context that is made from a template. It uses the first TemplateDigits
// digits of the template's hash. Errors as IDForPanel.
func TemplateIDForPanel(hash, panelID string) (ID, error) {
	if len(hash) < TemplateDigits {
		return "", &fserr.Error{Code: fserr.EINVAL, Kind: fserr.KindContext, Detail: fmt.Sprintf("bad template hash %q", hash)}
	}
	return derive("safe_tpl_"+hash[:TemplateDigits]+"_", panelID)
}

const (
	workspacePrefix = "ctx_"
	unsafePrefix    = "unsafe_noctx_"
)

// TemplateDigits is the number of digits of a template's hash in an ID.
const TemplateDigits = 12

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

// DerivedFrom reports whether an ID, in any form, can be derived from panelID.
func DerivedFrom(id ID, panelID string) bool {
	p, err := ParseID(string(id))
	return err == nil && p.InstanceID == instanceOf(panelID) && !strings.Contains(panelID, "..")
}
