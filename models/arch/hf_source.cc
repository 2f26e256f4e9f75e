#include "models/arch/hf_source.h"

#include "models/files/load_error.h"

namespace reprise::models {

std::size_t count_at(const JsonPlace& place, std::int64_t most) {
  const std::int64_t value = place.integer();
  if (value < 1 || value > most) {
    place.fail(std::to_string(value) + " is out of range: 1 to " + std::to_string(most));
  }
  return static_cast<std::size_t>(value);
}

std::size_t HfSource::count(const Key& key, std::int64_t most) const {
  return count_at(text_.at(key.hf), most);
}

void HfSource::fail(const Key& key, const std::string& reason) const {
  const std::string prefix = text_.path().empty() ? "" : text_.path() + ".";
  throw LoadError(text_.file(), prefix + name(key), reason);
}

}  // namespace reprise::models
