# Writes the ctest list of the hostile cases: PROGRAM --list, each under UKS, into OUTPUT.
execute_process(COMMAND ${PROGRAM} --list OUTPUT_VARIABLE names COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" names "${names}")
get_filename_component(folder "${PROGRAM}" DIRECTORY)
set(text "")
foreach(name ${names})
  string(APPEND text "add_test([==[hostile.${name}]==] [==[${UKS}]==] exec --quiet --platform trap --ro "
                     "[==[${folder}]==] -- [==[${PROGRAM}]==] ${name})\n"
                     "set_tests_properties([==[hostile.${name}]==] PROPERTIES LABELS hostile TIMEOUT 60)\n")
endforeach()
file(WRITE ${OUTPUT} "${text}")
