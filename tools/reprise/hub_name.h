#pragma once
// What a model is called on the hub, and which of its files are wanted.
//
// Names of files come from a server and become paths on this machine: only those pass that stay below the folder which
// they are put into.
//
// Threading: pure functions.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::tools {

/// OWNER/MODEL[:FILE]. FILE may be the name of a file, or a word that one GGUF file alone has in its name (Q4_K_M).
struct HubName {
  std::string owner;
  std::string model;
  std::string file{};  // empty: the model's own
};

inline constexpr std::string_view kHubPrefix = "hf:";

/// With or without kHubPrefix. Throws UsageError.
HubName parse_hub_name(std::string_view text);

/// One file of a model, as the hub lists it.
struct HubFile {
  std::string path;  // is_safe_path() holds
  std::uint64_t bytes = 0;
  std::string sha256{};  // 64 hex digits; empty: the hub does not say
};

/// Relative, of parts that are letters, digits and ._-+ alone, none of which begins with a dot; 255 bytes at most.
bool is_safe_path(std::string_view path);

/// Those to pull: a GGUF file with all its parts, or what a Hugging Face folder needs (weights as safetensors, and what
/// lies beside them as JSON, templates and vocabularies). Throws UsageError where the choice is not clear; it lists
/// what there is.
std::vector<HubFile> wanted_files(const std::vector<HubFile>& all, const HubName& name);

}  // namespace reprise::tools
