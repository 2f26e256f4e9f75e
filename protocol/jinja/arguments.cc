#include "protocol/jinja/arguments.h"

#include "protocol/jinja/compare.h"
#include "protocol/jinja/error.h"
#include "protocol/jinja/text.h"

namespace reprise::protocol::jinja {

Parameters::Parameters(std::string_view function, const Arguments& arguments,
                       std::initializer_list<const char*> names)
    : function_(function), names_(names), values_(names.size(), nullptr) {
  if (arguments.positional.size() > names_.size()) {
    fail({function_, "() takes at most ", std::to_string(names_.size()), " arguments, ",
          std::to_string(arguments.positional.size()), " were given"});
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    std::size_t i = 0;
    while (i < names_.size() && name != names_[i]) ++i;
    if (i == names_.size()) fail({function_, "() got an unexpected keyword argument '", name, "'"});
    if (values_[i] != nullptr) fail({function_, "() got multiple values for argument '", name, "'"});
    values_[i] = &value;
  }
}

const Value& Parameters::need(std::size_t i) const {
  if (values_[i] == nullptr) fail({function_, "() misses its argument '", names_[i], "'"});
  return *values_[i];
}

std::int64_t Parameters::integer(std::size_t i, std::int64_t fallback) const {
  if (values_[i] == nullptr) return fallback;
  const Value& value = *values_[i];
  if (value.is_undefined()) fail(value.undefined_message());
  if (!value.is_integral()) {
    fail({function_, "(): '", names_[i], "' must be an integer, not ", type_name(value)});
  }
  return value.as_int();
}

bool Parameters::truth(std::size_t i, bool fallback) const {
  return values_[i] == nullptr ? fallback : is_true(*values_[i]);
}

std::string_view Parameters::text(std::size_t i, std::string_view fallback) const {
  return values_[i] == nullptr || values_[i]->is_none() ? fallback : std::string_view(need_text(i));
}

const std::string& Parameters::need_text(std::size_t i) const {
  const Value& value = need(i);
  if (value.is_undefined()) fail(value.undefined_message());
  if (!value.is_string()) {
    fail({function_, "(): '", names_[i], "' must be a string, not ", type_name(value)});
  }
  return value.as_string();
}

}  // namespace reprise::protocol::jinja
