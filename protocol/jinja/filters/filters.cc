#include "protocol/jinja/filters/filters.h"

#include <map>

namespace reprise::protocol::jinja {

Filter find_filter(std::string_view name) {
  static const std::map<std::string_view, Filter> all = [] {
    std::map<std::string_view, Filter> filters;
    for (const auto table :
         {text_filters(), number_filters(), sequence_filters(), order_filters(), selection_filters()}) {
      for (const NamedFilter& filter : table) filters.emplace(filter.name, filter.filter);
    }
    return filters;
  }();
  const auto found = all.find(name);
  return found == all.end() ? nullptr : found->second;
}

}  // namespace reprise::protocol::jinja
