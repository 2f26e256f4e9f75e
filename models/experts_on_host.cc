#include "models/experts_on_host.h"

#include <algorithm>
#include <charconv>

#include "models/compute_options.h"

namespace reprise::models {

std::uint32_t cpu_experts_named(const std::string& text) {
  if (text == "all") return kAllLayers;
  std::uint32_t layers = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), layers);
  if (error != std::errc{} || end != text.data() + text.size() || layers == kAllLayers) {
    throw SettingError("cpu-experts: '" + text + "' is neither a number of layers nor all");
  }
  return layers;
}

std::set<std::string> experts_on_host(const ModelConfig& model, std::uint32_t cpu_experts) {
  const std::vector<const MoeSpec*> mixtures = parts_of<MoeSpec>(model.layers);
  if (cpu_experts != kAllLayers && cpu_experts > mixtures.size()) {
    throw SettingError("cpu-experts: " + std::to_string(cpu_experts) + " layers, and the model has " +
                       (mixtures.empty()
                            ? "no experts"
                            : std::to_string(mixtures.size()) + " with experts; all names them"));
  }
  std::set<std::string> names;
  for (std::size_t i = 0; i < std::min<std::size_t>(cpu_experts, mixtures.size()); ++i) {
    names.insert(mixtures[i]->name);
  }
  return names;
}

}  // namespace reprise::models
