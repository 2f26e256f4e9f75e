#include "protocol/apis.h"

#include <iterator>

#include "protocol/api/slot_records.h"

namespace reprise::protocol {

ApiTable all_apis(const ApiSettings& settings) {
  constexpr std::vector<ApiRoute> (*kApis[])(const ApiSettings&) = {
      openai::routes, ollama::routes, anthropic::routes, responses::routes, llama::routes,
  };
  ApiSettings whole = settings;
  if (whole.names == nullptr) whole.names = std::make_shared<NamedSnapshots>();
  if (whole.slot_records == nullptr) whole.slot_records = std::make_shared<SlotRecords>();
  ApiTable table{.elsewhere = &openai_dialect()};
  for (const auto routes_of : kApis) {
    std::vector<ApiRoute> routes = routes_of(whole);
    std::move(routes.begin(), routes.end(), std::back_inserter(table.routes));
  }
  return table;
}

}  // namespace reprise::protocol
