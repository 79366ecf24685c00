import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.Driver;
import java.sql.DriverPropertyInfo;
import java.util.Properties;
import java.util.logging.Logger;

/** A driver whose connections lead nowhere: a pool of them can be looked at without a database. */
public class NoDatabase implements Driver {
    @Override
    public Connection connect(String url, Properties how) {
        boolean[] closed = new boolean[1];
        return (Connection) Proxy.newProxyInstance(
                NoDatabase.class.getClassLoader(), new Class<?>[] {Connection.class}, (proxy, method, words) -> {
                    switch (method.getName()) {
                        case "close":
                            closed[0] = true;
                            return null;
                        case "isClosed":
                            return closed[0];
                        case "isValid":
                        case "getAutoCommit":
                            return true;
                        case "hashCode":
                            return System.identityHashCode(proxy);
                        case "equals":
                            return proxy == words[0];
                        default:
                            Class<?> type = method.getReturnType();
                            return type == boolean.class ? (Object) false : type == int.class ? (Object) 0 : null;
                    }
                });
    }

    @Override
    public boolean acceptsURL(String url) {
        return url.startsWith("jdbc:nowhere:");
    }

    @Override
    public DriverPropertyInfo[] getPropertyInfo(String url, Properties how) {
        return new DriverPropertyInfo[0];
    }

    @Override
    public int getMajorVersion() {
        return 1;
    }

    @Override
    public int getMinorVersion() {
        return 0;
    }

    @Override
    public boolean jdbcCompliant() {
        return false;
    }

    @Override
    public Logger getParentLogger() {
        return Logger.getGlobal();
    }
}
