#pragma once
// Chat templates by common names, for models without a template or with a wrong one. They write no BOS; the
// tokenizer adds it if the model needs it.

#include <optional>
#include <string>
#include <string_view>

namespace reprise::protocol {

/// Returns nothing for an unknown name.
std::optional<std::string> named_template(std::string_view name);

/// Returns "chatml, command-r, ...".
std::string template_names();

}  // namespace reprise::protocol
