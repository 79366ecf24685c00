import com.sun.tools.attach.AttachNotSupportedException;
import com.sun.tools.attach.VirtualMachine;
import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import java.lang.reflect.Method;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import javax.management.Attribute;
import javax.management.InstanceNotFoundException;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.openmbean.CompositeData;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/**
 * Reads and sets attributes of the MBeans of a running JVM: one request in a line of standard input, fields apart by
 * tabs, and one reply in a line of JSON. It has the user and sees the files of that JVM, and ends with its standard
 * input.
 *
 * <p>Where the JVM has a local JMX connector already it uses that one. Else it has the JVM open one on 127.0.0.1, behind
 * a password that nobody else can read, and close it when the last of us goes: the connector that the attach API opens
 * by itself listens at every address and stays.
 */
final class Jmx {
    private static final String PREFIX = "com.sun.management.jmxremote.";
    private static final String USER = "trimtab";
    private static final Pattern URL = Pattern.compile("URL\\s*:\\s*(service:jmx:rmi://\\S+)");
    private static final Pattern PASSWORD = Pattern.compile("jmxremote\\.password\\.file = (/tmp/trimtab-jmx-[^/\\s]+)/");
    private static final String DEAF = "-XX:+DisableAttachMechanism";
    private static final String STATUS = "ManagementAgent.status";
    private static final int ATTEMPTS = 5;
    private static final String UNLIMITED = "-1";
    private static final long PARK_MS = 1000;
    private static final int TAKEN_MS = 100;
    private static final long POLL_MS = 2;
    private static final int QUIET_POLLS = 50;
    private static final int DEPTH = 16;
    private static final String[] SERVED = {"keepAliveCount", "currentThreadsBusy"};
    private static final String CONNECTIONS = "maxConnections";
    private static final String ACCEPTOR = "-Acceptor";
    private static final String NIO2 = "-nio2-";
    private static final String IDLE = "minEvictableIdleTimeMillis";
    private static final String LOOKED_AT = "numTestsPerEvictionRun";
    private static final String REQUESTS = "maxKeepAliveRequests";
    /** A connector to what is to be done before it serves again. */
    private static final Map<String, List<String[]>> PAUSED = new HashMap<>();

    private final VirtualMachine machine;
    private Path directory;
    private FileChannel lock;
    private FileLock shared;

    private Jmx(String pid) throws IOException, AttachNotSupportedException {
        // It would answer each of the signals by which one attaches with a dump of its threads.
        for (String name : new String[] {"cmdline", "environ"}) {
            if (read(Path.of("/proc", pid, name)).contains(DEAF)) {
                throw new IOException("Java was started with " + DEAF);
            }
        }
        machine = VirtualMachine.attach(pid);
    }

    /** A file's text; none of one that may not be read, as the environment of a process with capabilities. */
    private static String read(Path path) {
        try {
            return Files.readString(path, StandardCharsets.ISO_8859_1);
        } catch (IOException denied) {
            return "";
        }
    }

    public static void main(String[] words) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        try {
            Jmx jmx = new Jmx(words[0]);
            try {
                JMXConnector connector = jmx.connect();
                out.println("{\"ready\":true}");
                serve(connector.getMBeanServerConnection(), out);
            } finally {
                jmx.close();
            }
        } catch (Exception error) {
            out.println("{\"error\":" + json(String.valueOf(error)) + "}");
            System.exit(1);
        }
        System.exit(0);
    }

    /** Answers until the input ends; who is gone then cannot resume what he has paused, so that is resumed here. */
    private static void serve(MBeanServerConnection beans, PrintStream out) throws IOException {
        try {
            answerAll(beans, out);
        } finally {
            for (String bean : List.copyOf(PAUSED.keySet())) {
                try {
                    invoke(beans, bean, "resume");
                } catch (Exception gone) {
                    // Nobody is left to be told.
                }
            }
        }
    }

    private static void answerAll(MBeanServerConnection beans, PrintStream out) throws IOException {
        InputStream in = new BufferedInputStream(System.in);
        for (String line = line(in); line != null; line = line(in)) {
            String[] words = line.split("\t", -1);
            String reply;
            try {
                reply = "\"is\":" + json(answer(beans, words));
            } catch (IOException error) {
                throw error;
            } catch (Exception error) {
                Throwable cause = error.getCause() == null ? error : error.getCause();
                reply = "\"error\":" + json(String.valueOf(cause));
            }
            out.println("{\"id\":" + words[1] + "," + reply + "}");
        }
    }

    /** The next line; null at the end of the input, and for a question that was cut there. */
    private static String line(InputStream in) throws IOException {
        ByteArrayOutputStream found = new ByteArrayOutputStream();
        for (int one = in.read(); one >= 0; one = in.read()) {
            if (one == '\n') {
                return found.toString(StandardCharsets.UTF_8);
            }
            found.write(one);
        }
        return null;
    }

    /**
     * Answers names ID PATTERN..., read ID BEAN ATTRIBUTE,ATTRIBUTE ..., set ID BEAN ATTRIBUTE VALUE, undo ID BEAN
     * ATTRIBUTE VALUE OURS..., which sets what has one of our values, call ID BEAN NAME ..., of which the last is
     * called in any case, and the others until one fails, empty ID BEAN, and pause ID CONNECTOR ENDPOINT LIMIT
     * REQUESTS, of which the last two are its maxConnections and maxKeepAliveRequests.
     */
    private static Object answer(MBeanServerConnection beans, String[] words) throws Exception {
        switch (words[0]) {
            case "names":
                List<String> names = new ArrayList<>();
                for (int i = 2; i < words.length; i++) {
                    for (ObjectName name : beans.queryNames(new ObjectName(words[i]), null)) {
                        names.add(name.toString());
                    }
                }
                names.sort(null);
                return names;
            case "read":
                List<Object> found = new ArrayList<>();
                for (int i = 2; i + 1 < words.length; i += 2) {
                    found.add(read(beans, new ObjectName(words[i]), words[i + 1].split(",")));
                }
                return found;
            case "set":
            case "undo":
                ObjectName bean = new ObjectName(words[2]);
                List<String> ours = Arrays.asList(words).subList(5, words.length);
                if (words[0].equals("set") || ours.contains(String.valueOf(beans.getAttribute(bean, words[3])))) {
                    set(beans, bean, words[3], words[4]);
                }
                return true;
            case "call":
                try {
                    for (int i = 2; i + 3 < words.length; i += 2) {
                        invoke(beans, words[i], words[i + 1]);
                    }
                } finally {
                    invoke(beans, words[words.length - 2], words[words.length - 1]);
                }
                return true;
            case "empty":
                empty(beans, new ObjectName(words[2]));
                return true;
            case "pause":
                pause(beans, words[2], new ObjectName(words[3]), words[4], words[5]);
                return true;
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static void invoke(MBeanServerConnection beans, String bean, String operation) throws Exception {
        boolean serves = operation.equals("start") || operation.equals("resume");
        for (String[] words : serves ? PAUSED.getOrDefault(bean, List.of()) : List.<String[]>of()) {
            answer(beans, words);
        }
        beans.invoke(new ObjectName(bean), operation, new Object[0], new String[0]);
        if (serves) {
            PAUSED.remove(bean);
        }
    }

    /**
     * Has a pool of DBCP close the connections that nobody has. It closes those that have been idle for long enough,
     * so for this moment a millisecond is, and it looks at all of them. Its restart would end its MBean.
     */
    private static void empty(MBeanServerConnection beans, ObjectName pool) throws Exception {
        String idle = String.valueOf(beans.getAttribute(pool, IDLE));
        String number = String.valueOf(beans.getAttribute(pool, LOOKED_AT));
        try {
            set(beans, pool, IDLE, "1");
            set(beans, pool, LOOKED_AT, "-1");
            Thread.sleep(POLL_MS);
            beans.invoke(pool, "evict", new Object[0], new String[0]);
        } finally {
            try {
                set(beans, pool, IDLE, idle);
            } finally {
                set(beans, pool, LOOKED_AT, number);
            }
        }
    }

    /**
     * Pauses a connector without a loss. A paused one closes the connection that its acceptor has just taken, and
     * answers 503 or 400 to a request that it reads just then. So its acceptor is first led to where it waits for a
     * connection to end, since there may be no more of them, and those in use end with the next response. With NIO2
     * one of the threads that serve waits there, once it has taken the last. After a pause it counts from 0, so it has
     * its limit again, and with it a count, only when what is left has ended.
     */
    private static void pause(MBeanServerConnection beans, String connector, ObjectName endpoint, String limit,
            String requests) throws Exception {
        ThreadMXBean threads = ManagementFactory.newPlatformMXBeanProxy(
                beans, ManagementFactory.THREAD_MXBEAN_NAME, ThreadMXBean.class);
        String name = String.valueOf(beans.getAttribute(endpoint, "name"));
        Long acceptor = acceptor(threads, name);
        PAUSED.put(connector, List.of());
        if (limit.equals(UNLIMITED) || (acceptor == null && !name.contains(NIO2))) {
            invoke(beans, connector, "pause");
            return;
        }
        // Without a limit first: one that is raised wakes nobody who waits at it.
        PAUSED.put(connector, List.of(
                new String[] {"undo", "", endpoint.toString(), CONNECTIONS, UNLIMITED, "0"},
                new String[] {"undo", "", endpoint.toString(), CONNECTIONS, limit, UNLIMITED}));
        Object bound = beans.getAttribute(new ObjectName(connector), "address");
        InetAddress address = bound instanceof InetAddress ? (InetAddress) bound : InetAddress.getLoopbackAddress();
        int port = (Integer) beans.getAttribute(endpoint, "localPort");
        List<Socket> ours = new ArrayList<>();
        try {
            set(beans, endpoint, CONNECTIONS, "0");
            set(beans, endpoint, REQUESTS, "1");
            quiet(beans, endpoint, threads, name, new InetSocketAddress(address, port), ours);
            invoke(beans, connector, "pause");
        } finally {
            end(ours);
            set(beans, endpoint, REQUESTS, requests);
        }
    }

    /**
     * Waits until the acceptor waits for a connection to end, nothing is in service, and no more of them have ended
     * for a while. It may have to take one of ours before, and several where it has counted fewer than there are.
     */
    private static void quiet(
            MBeanServerConnection beans, ObjectName endpoint, ThreadMXBean threads, String name,
            InetSocketAddress there, List<Socket> ours) throws Exception {
        long deadline = System.nanoTime() + PARK_MS * 1_000_000;
        List<Attribute> before = List.of();
        Long acceptor = acceptor(threads, name);
        for (int same = 0; same < QUIET_POLLS && System.nanoTime() < deadline; same++) {
            List<Attribute> now = beans.getAttributes(endpoint, SERVED).asList();
            if (acceptor == null || !parked(threads.getThreadInfo(acceptor, DEPTH))) {
                ours.add(connected(there));
                acceptor = acceptor(threads, name);
                same = 0;
            }
            if (!now.equals(before) || (Integer) now.get(1).getValue() > (name.contains(NIO2) ? 1 : 0)) {
                same = 0;
            }
            before = now;
            Thread.sleep(POLL_MS);
        }
    }

    private static Socket connected(InetSocketAddress there) {
        Socket one = new Socket();
        try {
            one.connect(there, TAKEN_MS);
        } catch (IOException full) {
            // So many wait that the acceptor has enough to take.
        }
        return one;
    }

    /** Ends connections of ours, and waits until the other side has; not for those that it has not taken. */
    private static void end(List<Socket> ours) {
        boolean taken = true;
        for (Socket one : ours) {
            try (one) {
                one.setSoTimeout(TAKEN_MS);
                one.shutdownOutput();
                taken = taken && one.getInputStream().read() < 0;
            } catch (IOException waits) {
                taken = false;
            }
        }
    }

    /** The thread that takes an endpoint's connections, of NIO2 once it waits to take another; null for none. */
    private static Long acceptor(ThreadMXBean threads, String endpoint) {
        boolean any = endpoint.contains(NIO2);
        for (ThreadInfo one : threads.getThreadInfo(threads.getAllThreadIds(), any ? DEPTH : 0)) {
            String name = one == null ? "" : one.getThreadName();
            if (any ? !name.contains(ACCEPTOR) && parked(one) : name.startsWith(endpoint + ACCEPTOR)) {
                return one.getThreadId();
            }
        }
        return null;
    }

    private static boolean parked(ThreadInfo thread) {
        return thread != null && Arrays.stream(thread.getStackTrace())
                .anyMatch(frame -> frame.getMethodName().equals("countUpOrAwaitConnection"));
    }

    private static void set(MBeanServerConnection beans, ObjectName bean, String name, String value) throws Exception {
        Object now = beans.getAttribute(bean, name);
        Object number = now instanceof Long ? (Object) Long.valueOf(value) : Integer.valueOf(value);
        beans.setAttribute(bean, new Attribute(name, number));
    }

    /** Attributes of an MBean, in their order; of one that is made of parts, a part is named after a dot. */
    private static Object read(MBeanServerConnection beans, ObjectName bean, String[] attributes) throws Exception {
        String[] whole = Arrays.stream(attributes).map(one -> one.split("\\.")[0]).toArray(String[]::new);
        Map<String, Object> values = new HashMap<>();
        try {
            for (Attribute one : beans.getAttributes(bean, whole).asList()) {
                values.put(one.getName(), one.getValue());
            }
        } catch (InstanceNotFoundException gone) {
            return null;
        }
        List<Object> found = new ArrayList<>();
        for (int i = 0; i < attributes.length; i++) {
            Object value = values.get(whole[i]);
            if (value instanceof CompositeData) {
                value = ((CompositeData) value).get(attributes[i].substring(whole[i].length() + 1));
            }
            found.add(value);
        }
        return found;
    }

    private JMXConnector connect() throws Exception {
        String local = machine.getAgentProperties().getProperty(PREFIX + "localConnectorAddress");
        if (local != null) {
            return JMXConnectorFactory.connect(new JMXServiceURL(local));
        }
        if (machine.getSystemProperties().getProperty("java.specification.version").startsWith("1.")) {
            throw new IOException("it runs on Java 8 or older, and a JMX connector can be opened from Java 11 on");
        }
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
            String status = asked(STATUS);
            Matcher ours = PASSWORD.matcher(status);
            boolean there = URL.matcher(status).find();
            if (there && !ours.find()) {
                throw new IOException("it has a management agent of somebody else, which "
                        + "'jcmd " + machine.id() + " ManagementAgent.stop' closes");
            }
            Matcher url = URL.matcher((there ? joined(Path.of(ours.group(1))) : open()) ? asked(STATUS) : "");
            if (!url.find()) {
                continue;
            }
            String password = Files.readString(directory.resolve("password")).trim().split(" ")[1];
            Map<String, Object> environment = new HashMap<>();
            environment.put(JMXConnector.CREDENTIALS, new String[] {USER, password});
            return JMXConnectorFactory.connect(new JMXServiceURL(url.group(1)), environment);
        }
        throw new IOException("the JVM's management agent comes and goes");
    }

    /** Joins another one of us; false where that one has just gone. */
    private boolean joined(Path there) throws IOException, ReflectiveOperationException {
        directory = there;
        try {
            lock = FileChannel.open(directory.resolve("lock"), StandardOpenOption.READ, StandardOpenOption.WRITE);
            shared = lock.lock(0, Long.MAX_VALUE, true);
            if (Files.exists(directory.resolve("password"))) {
                return true;
            }
        } catch (NoSuchFileException gone) {
            // An agent without its files is of one of us that was killed: nobody else can log in any more.
            asked("ManagementAgent.stop");
        }
        return false;
    }

    /** Has the JVM open a connector; false where another one of us has just been quicker. */
    private boolean open() throws IOException, ReflectiveOperationException {
        directory = Files.createTempDirectory(Path.of("/tmp"), "trimtab-jmx-",
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
        String password = new BigInteger(192, new SecureRandom()).toString(16);
        write("password", USER + " " + password + "\n");
        write("access", USER + " readwrite\n");
        write("lock", "");
        lock = FileChannel.open(directory.resolve("lock"), StandardOpenOption.READ, StandardOpenOption.WRITE);
        shared = lock.lock(0, Long.MAX_VALUE, true);
        int port;
        // One port for both, and not 0: of that the JVM would never close one.
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
            port = free.getLocalPort();
        }
        write("agent", String.join("\n" + PREFIX, "", "host=127.0.0.1", "port=" + port, "rmi.port=" + port,
                "ssl=false", "authenticate=true", "password.file=" + directory.resolve("password"),
                "password.toHashes=false", "access.file=" + directory.resolve("access")) + "\n");
        Properties how = new Properties();
        how.setProperty("com.sun.management.config.file", directory.resolve("agent").toString());
        try {
            machine.startManagementAgent(how);
        } catch (IOException failed) {
            close();
            if (!URL.matcher(asked(STATUS)).find()) {
                throw failed;
            }
        }
        return shared.isValid();
    }

    /** Has the JVM close what we had it open, unless another one of us still needs it. */
    private void close() throws IOException, ReflectiveOperationException {
        if (shared != null && shared.isValid()) {
            shared.release();
            FileLock alone = lock.tryLock();
            if (alone != null && Files.exists(directory.resolve("password"))) {
                try {
                    if (asked(STATUS).contains(directory + "/password")) {
                        asked("ManagementAgent.stop");
                    }
                } finally {
                    for (String name : new String[] {"password", "access", "agent", "lock", ""}) {
                        Files.deleteIfExists(directory.resolve(name));
                    }
                }
            }
            lock.close();
        }
    }

    private void write(String name, String text) throws IOException {
        Path path = directory.resolve(name);
        Files.createFile(path, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
        Files.writeString(path, text);
    }

    /** What jcmd would print; the attach API has it, but not for everybody. */
    private String asked(String command) throws IOException, ReflectiveOperationException {
        Method ask = Class.forName("sun.tools.attach.HotSpotVirtualMachine").getMethod("executeJCmd", String.class);
        ask.setAccessible(true);
        try (InputStream in = (InputStream) ask.invoke(machine, command)) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        }
    }

    private static String json(Object value) {
        if (value == null || value instanceof Boolean || value instanceof Integer || value instanceof Long) {
            return String.valueOf(value);
        }
        if (value instanceof List) {
            return ((List<?>) value).stream().map(Jmx::json).collect(Collectors.joining(",", "[", "]"));
        }
        StringBuilder text = new StringBuilder("\"");
        for (char one : String.valueOf(value).toCharArray()) {
            text.append(one < ' ' || one == '"' || one == '\\' || one > '~' ? String.format("\\u%04x", (int) one) : one);
        }
        return text.append('"').toString();
    }
}
