#pragma once
// The functions that every template can call: range, dict, namespace, cycler and joiner of Jinja,
// raise_exception and strftime_now of transformers.
//
// Threading: the functions hold no state and are shared by all renderings.

#include <optional>
#include <string_view>

#include "protocol/jinja/value.h"

namespace reprise::protocol::jinja {

std::optional<Value> find_global(std::string_view name);

}  // namespace reprise::protocol::jinja
