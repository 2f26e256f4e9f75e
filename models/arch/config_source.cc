#include "models/arch/config_source.h"

#include <set>

#include "models/files/load_error.h"

namespace reprise::models {

std::size_t count_at(const JsonLocation& place, std::int64_t most) {
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

std::size_t GgufSource::checked(const Key& key, std::int64_t value, std::int64_t most) const {
  if (value < 1 || value > most) {
    fail(key, std::to_string(value) + " is out of range: 1 to " + std::to_string(most));
  }
  return static_cast<std::size_t>(value);
}

std::size_t GgufSource::count(const Key& key, std::int64_t most) const {
  return checked(key, metadata().integer(full(key)), most);
}

std::size_t GgufSource::uniform(const Key& key, std::int64_t most) const {
  if (!is_array(key)) return count(key, most);
  std::set<std::int64_t> values;
  for (std::int64_t value : metadata().integers(full(key))) {
    if (value != 0) values.insert(value);
  }
  if (values.size() != 1) fail(key, "layers that differ are not supported");
  return checked(key, *values.begin(), most);
}

void GgufSource::fail(const Key& key, const std::string& reason) const {
  throw LoadError(metadata().file(), full(key), reason);
}

}  // namespace reprise::models
