#pragma once
// Chat templates by the names that people know their formats by: for models that came without one, or with one that is
// wrong. They write no BOS; whoever tokenises puts it in front where the model was made with one.
//
// Threading: pure functions.

#include <optional>
#include <string>
#include <string_view>

namespace reprise::protocol {

/// Nothing where there is none of this name.
std::optional<std::string> named_template(std::string_view name);

/// "chatml, command-r, …"
std::string template_names();

}  // namespace reprise::protocol
