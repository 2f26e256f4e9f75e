#pragma once
// Which layers' experts stay on the host while a GPU computes the rest of a model: those of the first N layers that have
// any, or of all (models/host_experts.h computes them).
//
// Threading: pure functions.

#include <cstdint>
#include <set>
#include <string>

#include "models/arch/config.h"
#include "models/device_options.h"

namespace reprise::models {

/// What users write: a number of layers, or "all". Throws SettingError, which begins with "cpu-experts".
std::uint32_t cpu_experts_named(const std::string& text);

/// The names of the mixtures whose experts stay on the host. kAllLayers: all that there are, which may be none. Throws
/// SettingError where fewer layers have experts than were named.
std::set<std::string> experts_on_host(const ModelConfig& model, std::uint32_t cpu_experts);

}  // namespace reprise::models
