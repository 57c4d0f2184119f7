# Writes the ctest list of the hostile cases: PROGRAM --list, each under UKS, into OUTPUT.
execute_process(COMMAND ${PROGRAM} --list OUTPUT_VARIABLE names COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" names "${names}")
set(text "")
foreach(name ${names})
  # How it runs is in its name: traced_* (platform ptrace, see run_outside()), by_order_*, traced_by_order_*.
  set(variables "")
  if(name MATCHES "^(traced_)?by_order_")
    list(APPEND variables UKS_FEATURES=-proc_mem)
  endif()
  # The sanitizers' allocators keep what is freed: 16 MiB in quarantine (tools/sanitizer_options.cc), and shadows.
  if(SANITIZE)
    list(APPEND variables UKS_HOSTILE_SLACK_KIB=65536)
  endif()
  set(environment "")
  if(variables)
    set(environment " ENVIRONMENT [==[${variables}]==]")
  endif()
  string(APPEND text "add_test([==[hostile.${name}]==] [==[${PROGRAM}]==] --outside [==[${UKS}]==] ${name})\n"
                     "set_tests_properties([==[hostile.${name}]==] PROPERTIES LABELS hostile TIMEOUT 120${environment})\n")
endforeach()
file(WRITE ${OUTPUT} "${text}")
