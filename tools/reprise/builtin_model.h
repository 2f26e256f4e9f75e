#pragma once
// The built-in model (models/builtin_model.h) for every command that is given no --model.
//
// Threading: as there.

#include <string>

namespace reprise::tools {

/// `given`; the built-in model's folder where it is empty; and where it is one of the hub's (hf:OWNER/MODEL[:FILE],
/// tools/reprise/hub.h), the path that it was pulled to, which may take long. Throws UsageError, std::runtime_error.
std::string model_or_builtin(const std::string& given);

}  // namespace reprise::tools
