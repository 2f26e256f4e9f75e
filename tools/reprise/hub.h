#pragma once
// Models from a hub: Hugging Face's, or one that speaks like it (HF_ENDPOINT). HF_TOKEN, where it is set, is sent with
// every request to that place, and to no other that it sends us on to.
//
// A file is written as FILE.part and renamed when all of it is there, with the size and, where the hub tells it, the
// checksum that it was listed with; a pull that broke off goes on where it was. Broken connections are tried again, a
// few times.
//
// Names of files come from the hub and become paths on this machine: only those pass that stay below the folder which they
// are put into.
//
// Bounds: a list of kMostHubFiles files, kMostListBytes; no file gets longer than it was listed, and nothing is begun
// that the disk has no room for.
//
// Threading: one thread at a time. Two programs that pull the same file: the second is refused.

#include <cstddef>
#include <cstdint>
#include <filesystem>
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

inline constexpr std::size_t kMostHubFiles = 10'000;
inline constexpr std::size_t kMostListBytes = std::size_t{32} << 20;

struct HubSettings {
  std::string endpoint = "https://huggingface.co";
  std::string token{};
  std::string revision = "main";
  std::filesystem::path
      folder{};        // models lie in folder/OWNER/MODEL, other revisions than main in MODEL@REVISION
  unsigned tries = 5;  // of a connection that breaks, each a little later
};

/// From HF_ENDPOINT, HF_TOKEN and REPRISE_MODELS, ~/.cache/reprise/models without it. Throws UsageError.
HubSettings hub_settings();

/// The files in the hub's answer to a request for the list of them; those with paths that lead elsewhere are left out.
/// `model` names it in errors. Throws std::runtime_error.
std::vector<HubFile> read_hub_list(const std::string& body, const std::string& model);

/// What --model takes: the folder, or the GGUF file (the first of its parts). Pulls what is not there yet, and asks the
/// hub nothing where all is. Progress goes to stderr where that is a terminal. Throws UsageError, std::runtime_error.
std::filesystem::path pull(const HubSettings& settings, const HubName& name);

}  // namespace reprise::tools
