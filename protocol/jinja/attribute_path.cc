#include "protocol/jinja/attribute_path.h"

#include <string_view>

#include "protocol/jinja/attributes.h"
#include "protocol/jinja/numbers.h"
#include "protocol/jinja/workspace.h"

namespace reprise::protocol::jinja {

AttributePath::AttributePath(Workspace& workspace, const Value* attribute) {
  if (attribute == nullptr || attribute->is_none()) return;
  if (!attribute->is_string()) {
    parts_.push_back(*attribute);
    return;
  }
  std::string_view rest = attribute->as_string();
  workspace.work(rest.size());
  for (;;) {
    const std::size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    const bool is_number = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    const auto number = is_number ? parse_integer(part, 10) : std::nullopt;
    parts_.push_back(number ? Value(*number) : workspace.text(std::string(part)));
    workspace.check_items(parts_.size());
    if (dot == rest.npos) break;
    rest.remove_prefix(dot + 1);
  }
}

Value AttributePath::get(Workspace& workspace, Value item, const Value* fallback) const {
  for (const Value& part : parts_) {
    item = get_item(workspace, item, part);
    if (fallback != nullptr && !fallback->is_none() && item.is_undefined()) item = *fallback;
  }
  return item;
}

}  // namespace reprise::protocol::jinja
