#pragma once
// Pulls models from Hugging Face or a hub with the same API (HF_ENDPOINT). HF_TOKEN, if set, is sent to that
// host only, not to hosts it redirects to.
//
// A file is written as FILE.part and renamed once it has the listed size and, if the hub lists one, checksum.
// A later pull resumes an interrupted one. Broken connections are retried a few times.
//
// File names come from the hub and become local paths: only those that stay below the target folder are
// accepted.
//
// Bounds: kMaxHubFiles files and kMaxListBytes per list; no file exceeds its listed size; a file is not
// started if the disk has no space for it.
//
// Threading: one thread at a time. If two programs pull the same file, the second is refused.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::tools {

/// OWNER/MODEL[:FILE]. FILE is a file name, or a word that only one GGUF file has in its name (Q4_K_M).
struct HubName {
  std::string owner;
  std::string model;
  std::string file{};  // empty: chosen by wanted_files()
};

inline constexpr std::string_view kHubPrefix = "hf:";

/// Accepts names with or without kHubPrefix. Throws UsageError.
HubName parse_hub_name(std::string_view text);

struct HubFile {
  std::string path;  // satisfies is_safe_path()
  std::uint64_t bytes = 0;
  std::string sha256{};  // 64 hex digits; empty: not listed
};

/// True for relative paths of at most 255 bytes whose parts have only letters, digits and ._-+ and no leading
/// dot.
bool is_safe_path(std::string_view path);

/// Returns the files to pull: a GGUF file with all its parts, or the files of a Hugging Face folder
/// (safetensors weights, JSON, templates, vocabularies). Throws UsageError that lists the files if the choice
/// is ambiguous.
std::vector<HubFile> wanted_files(const std::vector<HubFile>& all, const HubName& name);

inline constexpr std::size_t kMaxHubFiles = 10'000;
inline constexpr std::size_t kMaxListBytes = std::size_t{32} << 20;

struct HubSettings {
  std::string endpoint = "https://huggingface.co";
  std::string token{};
  std::string revision = "main";
  std::filesystem::path
      folder{};        // models are in folder/OWNER/MODEL, revisions other than main in MODEL@REVISION
  unsigned tries = 5;  // attempts per broken connection, with growing pauses
};

/// Reads HF_ENDPOINT, HF_TOKEN and REPRISE_MODELS (default ~/.cache/reprise/models). Throws UsageError.
HubSettings hub_settings();

/// Parses the hub's file list; leaves out unsafe paths. `model` is used in errors. Throws std::runtime_error.
std::vector<HubFile> read_hub_list(const std::string& body, const std::string& model);

/// Pulls missing files, and returns the path for --model: the folder, or the first part of the GGUF file.
/// Sends no request if all files are there. Shows progress on stderr if that is a terminal. Throws
/// UsageError, std::runtime_error.
std::filesystem::path pull(const HubSettings& settings, const HubName& name);

}  // namespace reprise::tools
