#include "protocol/apis.h"

#include <iterator>

#include "protocol/llama/llama_api.h"
#include "protocol/openai/openai_api.h"

namespace reprise::protocol {

ApiTable all_apis() {
  // One row for each.
  constexpr std::vector<ApiRoute> (*kApis[])() = {
      openai::routes,
      llama::routes,
  };
  ApiTable table{.routes = {}, .elsewhere = openai::dialect()};
  for (const auto routes_of : kApis) {
    std::vector<ApiRoute> routes = routes_of();
    std::move(routes.begin(), routes.end(), std::back_inserter(table.routes));
  }
  return table;
}

}  // namespace reprise::protocol
