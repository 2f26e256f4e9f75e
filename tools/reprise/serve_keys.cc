// The side of tools/reprise/serve_config.h that knows keys and tenants.
#include <fstream>
#include <sstream>

#include "base/json_text.h"
#include "tools/reprise/serve_config.h"

namespace reprise::tools {

std::string print_key_tables(const std::vector<KeyTable>& tables) {
  std::string out;
  for (const KeyTable& table : tables) {
    const protocol::Tenant& tenant = table.tenant;
    if (tenant.name.empty()) {  // without its key it would say nothing
      out += "\n# [[keys]]: one without a tenant's name, which is not shown\n";
      continue;
    }
    out += "\n[[keys]]\n";
    if (!table.key.empty()) out += "# key: not shown\n";
    out += "tenant = ";
    append_json_string(out, tenant.name);  // a JSON string is a TOML string
    out += "\n";
    if (!table.describes) continue;
    out += std::string("operator = ") + (tenant.is_operator ? "true" : "false") + "\n";
    out += "requests = " + std::to_string(tenant.requests) + "\n";
    out += "tokens_per_minute = " + std::to_string(tenant.tokens_per_minute) + "\n";
    out += "state_share = ";
    append_json_double(out, tenant.state_share, false);
    out += "\n";
    if (tenant.priority) out += "priority = \"" + std::string(name_of(*tenant.priority)) + "\"\n";
  }
  return out;
}

void load_keys(ServeConfig& config, const char* environment) {
  protocol::KeyRing& keys = config.http.keys;
  const auto require = [](const std::string& problem, const std::string& source) {
    if (!problem.empty()) throw UsageError(source + ": " + problem);
  };
  if (!config.key_file.empty()) {
    std::ifstream file(config.key_file);
    if (!file) throw UsageError("auth.api_key_file: cannot read " + config.key_file);
    std::ostringstream text;
    text << file.rdbuf();
    require(keys.add(text.str()), config.key_file);
    if (keys.empty()) throw UsageError(config.key_file + ": holds no key");
  }
  require(keys.add(config.api_keys), "auth.api_key");
  if (environment != nullptr) require(keys.add(environment), "REPRISE_API_KEYS");
  for (const KeyTable& table : config.keys) {
    if (!table.key.empty()) require(keys.add_key(table.key, table.tenant.name), table.place);
  }
  for (const KeyTable& table : config.keys) {  // when all keys are there
    if (!table.describes) continue;
    protocol::Tenant tenant = table.tenant;
    if (tenant.name.empty()) tenant.name = keys.tenant_of(table.key)->name;
    require(keys.describe(tenant), table.place);
  }
  if (config.share_tenant) keys.share_cache();
}

}  // namespace reprise::tools
