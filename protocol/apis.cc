#include "protocol/apis.h"

#include <iterator>

#include "protocol/anthropic/anthropic_api.h"
#include "protocol/llama/llama_api.h"
#include "protocol/ollama/ollama_api.h"
#include "protocol/openai/openai_api.h"
#include "protocol/responses/responses_api.h"

namespace reprise::protocol {

ApiTable all_apis(const ApiSettings& settings) {
  // One row for each.
  constexpr std::vector<ApiRoute> (*kApis[])() = {
      ollama::routes,
      anthropic::routes,
      responses::routes,
  };
  const auto names = settings.names == nullptr ? std::make_shared<NamedSnapshots>() : settings.names;
  const auto slots = std::make_shared<openai::SlotBook>();
  ApiTable table{.routes = openai::routes(names, slots), .elsewhere = openai::dialect()};
  for (const auto routes_of : kApis) {
    std::vector<ApiRoute> routes = routes_of();
    std::move(routes.begin(), routes.end(), std::back_inserter(table.routes));
  }
  std::vector<ApiRoute> llama = llama::routes(
      {.slots = settings.slots, .verbose = settings.verbose, .names = names, .slot_book = slots});
  std::move(llama.begin(), llama.end(), std::back_inserter(table.routes));
  return table;
}

}  // namespace reprise::protocol
