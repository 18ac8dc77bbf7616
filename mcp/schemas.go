package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// simplify lists the tools with schemas that every model's provider takes. Several of them refuse a list of types, as in the schema of a Go
// slice, which may be null, and an object without properties.
func simplify(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		result, err := next(ctx, method, req)
		list, ok := result.(*sdk.ListToolsResult)
		if err != nil || !ok {
			return result, err
		}
		for i, t := range list.Tools {
			listed := *t
			if listed.InputSchema, err = simple(t.InputSchema); err != nil {
				return nil, fmt.Errorf("the schema of %s: %w", t.Name, err)
			}
			list.Tools[i] = &listed
		}
		return list, nil
	}
}

// simple returns a schema without lists of types. Every object has properties.
func simple(schema any) (map[string]any, error) {
	data, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, err
	}
	simplifyIn(out)
	return out, nil
}

func simplifyIn(schema map[string]any) {
	if types, ok := schema["type"].([]any); ok {
		types = slices.DeleteFunc(types, func(t any) bool { return t == "null" })
		if len(types) == 1 {
			schema["type"] = types[0]
		}
	}
	if schema["type"] == "object" && schema["properties"] == nil {
		schema["properties"] = map[string]any{}
	}
	if items, ok := schema["items"].(map[string]any); ok {
		simplifyIn(items)
	}
	properties, _ := schema["properties"].(map[string]any)
	for _, p := range properties {
		if p, ok := p.(map[string]any); ok {
			simplifyIn(p)
		}
	}
}
